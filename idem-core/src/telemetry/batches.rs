//! How many calls a store answers at once.

use super::{Histogram, Metric};

const BATCH: Metric = Metric {
    name: "idem_store_batch_calls",
    help: "Calls that shared one statement, script or commit of the store.",
};

/// The batches of one lane of a store.
#[derive(Debug, Clone)]
pub(crate) struct Batches(Histogram);

impl Batches {
    pub(crate) fn of(store: &'static str, lane: &'static str) -> Self {
        let labels = [("store", store), ("lane", lane)];
        Self(Histogram::register(BATCH, &labels))
    }

    /// One goes out, with so many calls.
    pub(crate) fn sent(&self, calls: usize) {
        self.0.count(calls);
    }
}
