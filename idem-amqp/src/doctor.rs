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
pub(crate) use facts::{Batches, Facts, Gaps, Patient, Product, Told};
pub(crate) use version::Version;
pub(crate) use visit::{Case, History, Visit};

/// What is to be said, the most severe first.
pub(crate) fn examine(facts: &Facts<'_>) -> Vec<Diagnosis> {
    let mut said: Vec<_> = checks::of_all(facts).collect();
    for patient in &facts.queues {
        let of_queue = checks::of_queue(patient, facts);
        said.extend(of_queue.map(|diagnosis| diagnosis.of(patient.queue)));
    }
    said.sort_by_key(|diagnosis| std::cmp::Reverse::<Severity>(diagnosis.finding.severity));
    said
}
