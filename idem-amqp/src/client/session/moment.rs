//! A moment in the past, and how long ago it is.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// A moment by two clocks: one stands still while the machine sleeps, the other can be set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    steady: Instant,
    wall: SystemTime,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self {
            steady: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// How long ago it is, at most.
    pub(super) fn elapsed(&self) -> Duration {
        let wall = self.wall.elapsed().unwrap_or_default();
        self.steady.elapsed().max(wall)
    }
}
