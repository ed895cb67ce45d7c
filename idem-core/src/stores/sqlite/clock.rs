//! The SQLite store's clock: the host's, which all processes on one file share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::SystemTime,
};

use crate::store::rules::record::micros;

#[derive(Clone, Default)]
pub(super) struct Clock {
    /// Microseconds that a test has added.
    skew: Arc<AtomicI64>,
}

impl Clock {
    /// Microseconds since the epoch.
    pub(super) fn now(&self) -> i64 {
        let since_epoch = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        micros(since_epoch).saturating_add(self.skew.load(Ordering::Relaxed))
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn advance(&self, by: std::time::Duration) {
        self.skew.fetch_add(micros(by), Ordering::Relaxed);
    }
}
