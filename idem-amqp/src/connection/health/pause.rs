//! How often the log is told the same.

use std::time::Duration;

use tokio::time::Instant;

/// When the log was told something last.
#[derive(Debug, Default)]
pub(super) struct Pause(Option<Instant>);

/// The log is told at most so often.
const SHORTEST: Duration = Duration::from_mins(1);

impl Pause {
    /// Whether it is time to tell it; if so, it is told.
    pub(super) fn try_tell(&mut self, now: Instant) -> bool {
        let due = self.0.is_none_or(|told| now - told >= SHORTEST);
        if due {
            self.0 = Some(now);
        }
        due
    }
}
