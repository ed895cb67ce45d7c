//! What the store remembers.

use idem_core::store::Finding;

use crate::doctor::{Diagnosis, Facts};

pub(super) fn look(facts: &Facts) -> Option<Diagnosis> {
    facts.forgets.then(|| {
        Diagnosis::reported(Finding::warning(
            "memory-store",
            "the store is this process's memory, and the queues outlive it: after a restart copies \
             of completed messages run again, and other workers know nothing of them; use \
             PostgreSQL, Redis or SQLite where that matters",
        ))
    })
}
