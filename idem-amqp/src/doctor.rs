//! Looks at what can be known about a broker, its queues and their handlers, and says what follows.
//!
//! [`examine`] is a pure function from facts to findings, tested as a table; the facts are collected
//! by [`visit`]. What policies say is not among them: AMQP does not tell.

use idem_core::store::Severity;

mod arguments;
mod checks;
mod diagnosis;
mod facts;
mod greeting;
mod look;
pub(crate) mod outbox;
mod span;
pub(crate) mod store;
#[cfg(test)]
mod tests;
mod version;
mod visit;

pub(crate) use arguments::Arguments;
pub(crate) use diagnosis::{Bars, Diagnosis};
pub(crate) use facts::{Batches, Declaration, Facts, Gaps, Patient, Product};
pub(crate) use version::Version;
pub(crate) use visit::{Case, History, Visit};

/// What is to be said, the most severe first.
pub(crate) fn examine(facts: &Facts<'_>) -> Vec<Diagnosis> {
    let mut said: Vec<_> = checks::of_all(facts).collect();
    let queues = &facts.queues;
    for routes in queues.chunk_by(|one, next| one.queue.name() == next.queue.name()) {
        said.extend(of_routes(routes, facts));
    }
    said.sort_by_key(|diagnosis| std::cmp::Reverse::<Severity>(diagnosis.finding.severity));
    said
}

/// What is to be said of a queue: once if it is so for each of its handlers, else with the handler's name.
fn of_routes(handlers: &[Patient<'_>], facts: &Facts<'_>) -> Vec<Diagnosis> {
    let found = handlers.iter().map(|patient| {
        let found = checks::of_queue(patient, facts);
        let found = found.map(|diagnosis| diagnosis.of(patient.queue));
        found.collect::<Vec<_>>()
    });
    let found: Vec<_> = found.collect();
    let mut said = Vec::new();
    for (patient, own) in handlers.iter().zip(&found) {
        for diagnosis in own {
            let is_of_all = found.iter().all(|others| others.contains(diagnosis));
            let diagnosis = if is_of_all {
                diagnosis.clone()
            } else {
                diagnosis.clone().of_handler(patient.handler)
            };
            if !said.contains(&diagnosis) {
                said.push(diagnosis);
            }
        }
    }
    said
}
