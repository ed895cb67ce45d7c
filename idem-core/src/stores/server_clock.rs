//! The clock of the stores that reach a server: time is the server's, and tests add to it. `postgres` and `redis` have
//! one each, which their clones share.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

/// What is added to the server's time.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock {
    /// Microseconds; zero outside of tests.
    skew: Arc<AtomicI64>,
}

impl Clock {
    /// Microseconds: a parameter of every statement and script.
    pub(super) fn skew(&self) -> i64 {
        self.skew.load(Ordering::Relaxed)
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn advance(&self, by: std::time::Duration) {
        let by = crate::store::rules::record::micros(by);
        self.skew.fetch_add(by, Ordering::Relaxed);
    }

    #[cfg(all(any(test, feature = "testing"), feature = "postgres"))]
    pub(super) fn reset(&self) {
        self.skew.store(0, Ordering::Relaxed);
    }
}
