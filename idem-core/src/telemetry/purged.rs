//! What is removed of a store.

use super::{Counter, Metric};

const PURGED: Metric = Metric {
    name: "idem_purged_total",
    help: "What was removed from the store because its retention, or its session, had ended.",
};

/// What one purging task removes.
#[derive(Debug)]
pub(crate) struct Purged(Counter);

impl Purged {
    pub(crate) fn of(what: &'static str) -> Self {
        Self(Counter::register(PURGED, &[("what", what)]))
    }

    pub(crate) fn removed(&self, count: u32) {
        self.0.add_many(count.into());
    }
}
