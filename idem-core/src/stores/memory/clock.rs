//! The memory store's clock: tokio's, so that a paused one drives it, counted from the epoch.

use std::time::SystemTime;

use tokio::time::Instant;

use crate::store::rules::record::micros;

/// A clock that never steps back, whatever the host's clock does after the start.
pub(crate) struct Clock {
    start: Instant,
    /// Tokens are at least the time, so counting from the epoch keeps them growing over a restart.
    start_micros: i64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            start: Instant::now(),
            start_micros: micros(since_epoch),
        }
    }

    /// Microseconds since the epoch.
    pub(crate) fn now(&self) -> i64 {
        self.start_micros
            .saturating_add(micros(self.start.elapsed()))
    }
}
