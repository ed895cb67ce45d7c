//! One file for each thing that is looked at.

use super::{Diagnosis, Facts, QueueFacts};

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
pub(super) fn of_all(facts: &Facts) -> impl Iterator<Item = Diagnosis> {
    [
        broker::look(facts),
        store::look(facts),
        purging::look(facts),
    ]
    .into_iter()
    .flatten()
}

/// What concerns one of its queues.
pub(super) fn of_queue(known: &QueueFacts, facts: &Facts) -> impl Iterator<Item = Diagnosis> {
    let broker = facts.broker.version();
    if known.queue().is_stream() {
        let found = acceptance::look(known)
            .chain(streams::look(known, broker))
            .chain(prefetch::look(known))
            .chain(timeout::look(known, broker));
        return found.collect::<Vec<_>>().into_iter();
    }
    let several = acceptance::look(known)
        .chain(declaration::look(known))
        .chain(dead_letters::look(known, broker))
        .chain(registrations::look(known))
        .chain(prefetch::look(known));
    let single = [
        retries::look(known, broker),
        delivery_limit::look(known, broker),
        timeout::look(known, broker),
        retention::look(known, facts.replay_window),
        sequences::ladder(known),
        sequences::gaps(known),
        sessions::look(known),
        enforcement::look(known),
        groups::look(known, facts),
        batches::look(known, facts),
    ];
    let found: Vec<_> = several.chain(single.into_iter().flatten()).collect();
    found.into_iter()
}
