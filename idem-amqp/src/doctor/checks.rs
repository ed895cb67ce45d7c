//! One file for each thing that is looked at.

use super::{Diagnosis, Facts, Patient};

mod acceptance;
mod batches;
mod broker;
mod dead_letters;
mod declaration;
mod delivery_limit;
mod enforcement;
mod groups;
mod prefetch;
mod purging;
mod registrations;
mod retention;
mod retries;
mod sequences;
mod sessions;
mod store;
mod streams;
mod timeout;

/// What concerns the worker as a whole.
pub(super) fn of_all(facts: &Facts<'_>) -> impl Iterator<Item = Diagnosis> {
    [
        broker::look(facts),
        store::look(facts),
        purging::look(facts),
    ]
    .into_iter()
    .flatten()
}

/// What concerns one of its queues.
pub(super) fn of_queue<'a>(
    patient: &'a Patient<'a>,
    facts: &'a Facts<'a>,
) -> impl Iterator<Item = Diagnosis> {
    if patient.queue.is_stream() {
        let found = acceptance::look(patient)
            .chain(streams::look(patient))
            .chain(prefetch::look(patient));
        return found.collect::<Vec<_>>().into_iter();
    }
    let broker = facts.broker.version();
    let several = acceptance::look(patient)
        .chain(declaration::look(patient))
        .chain(dead_letters::look(patient, broker))
        .chain(registrations::look(patient))
        .chain(prefetch::look(patient));
    let single = [
        retries::look(patient, broker),
        delivery_limit::look(patient, broker),
        timeout::look(patient, broker),
        retention::look(patient, facts.replay_window),
        sequences::ladder(patient),
        sequences::gaps(patient),
        sessions::look(patient),
        enforcement::look(patient),
        groups::look(patient, facts),
        batches::look(patient, facts),
    ];
    let found: Vec<_> = several.chain(single.into_iter().flatten()).collect();
    found.into_iter()
}
