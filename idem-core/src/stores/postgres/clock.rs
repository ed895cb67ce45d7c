//! The Postgres store's clock is the server's; tests add to it.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

#[derive(Clone, Default)]
pub(super) struct Clock {
    skew: Arc<AtomicI64>,
}

impl Clock {
    /// Microseconds that a test has added to the server's time: the first parameter of every
    /// statement.
    pub(super) fn skew(&self) -> i64 {
        self.skew.load(Ordering::Relaxed)
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn advance(&self, by: std::time::Duration) {
        self.skew
            .fetch_add(super::length::micros(by), Ordering::Relaxed);
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn reset(&self) {
        self.skew.store(0, Ordering::Relaxed);
    }
}
