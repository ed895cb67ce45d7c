//! How far a test has moved the server's clock on, for this store and its clones.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

/// Time is the server's; this is only what is added to it.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock {
    /// Microseconds; zero outside of tests.
    skew: Arc<AtomicI64>,
}

impl Clock {
    pub(super) fn skew(&self) -> i64 {
        self.skew.load(Ordering::Relaxed)
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn advance(&self, by: std::time::Duration) {
        let by = crate::store::rules::record::micros(by);
        self.skew.fetch_add(by, Ordering::Relaxed);
    }
}
