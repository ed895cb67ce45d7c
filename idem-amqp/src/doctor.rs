//! Looks at what can be known about a broker, its queues and their handlers, and says what follows.
//!
//! [`examine`] is a pure function from facts to findings, tested as a table; the facts are collected
//! by [`examination`]. What policies say is not among them: AMQP does not tell.

use idem_core::store::Severity;

mod arguments;
mod checks;
mod diagnosis;
mod examination;
mod facts;
mod greeting;
mod look;
pub(crate) mod outbox;
mod span;
pub(crate) mod store;
#[cfg(test)]
mod tests;
mod version;

pub(crate) use arguments::Arguments;
pub(crate) use diagnosis::{Bars, Diagnosis};
pub(crate) use examination::{Doctor, Examination};
pub(crate) use facts::{
    Answers, Batches, CheckedQueue, Declaration, Facts, Gaps, Product, QueueFacts,
};
pub(crate) use version::Version;

/// What is to be said, the most severe first.
pub(crate) fn examine(facts: &Facts) -> Vec<Diagnosis> {
    let mut said: Vec<_> = checks::of_all(facts).collect();
    let queues = &facts.queues;
    for routes in queues.chunk_by(|one, next| one.queue().name() == next.queue().name()) {
        said.extend(of_routes(routes, facts));
    }
    said.sort_by_key(|diagnosis| std::cmp::Reverse::<Severity>(diagnosis.finding.severity));
    said
}

/// What is to be said of a queue: once if it is so for each of its handlers, else with the handler's name.
fn of_routes(handlers: &[QueueFacts], facts: &Facts) -> Vec<Diagnosis> {
    let found = handlers.iter().map(|known| {
        let found = checks::of_queue(known, facts);
        let found = found.map(|diagnosis| diagnosis.of(known.queue()));
        found.collect::<Vec<_>>()
    });
    let found: Vec<_> = found.collect();
    let mut said = Vec::new();
    for (known, own) in handlers.iter().zip(&found) {
        for diagnosis in own {
            let is_of_all = found.iter().all(|others| others.contains(diagnosis));
            let diagnosis = if is_of_all {
                diagnosis.clone()
            } else {
                diagnosis.clone().of_handler(known.checked.handler)
            };
            if !said.contains(&diagnosis) {
                said.push(diagnosis);
            }
        }
    }
    said
}
