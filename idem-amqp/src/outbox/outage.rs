//! A broker or a store that is away, and when it is asked again.

use std::time::Duration;

use idem_core::handler::Backoff;
use tokio::time::Instant;

/// How long a broker or a store that is away is left alone before it is asked again.
const AWAY: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));

/// Whether something is away, and when it is asked again.
#[derive(Default)]
pub(super) struct Outage {
    failures: u32,
    pub(super) until: Option<Instant>,
}

impl Outage {
    /// Notes that it is away, or still is.
    pub(super) fn begins(&mut self, what: &str, error: &str) {
        // One outage fails all that are under way.
        if !self.is_over() {
            return;
        }
        if self.failures == 0 {
            tracing::warn!(error, "the {what} is away: the outbox waits for it");
        }
        self.failures += 1;
        self.until = Some(Instant::now() + AWAY.wait(self.failures));
    }

    pub(super) fn ends(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_over(&self) -> bool {
        self.until.is_none_or(|until| until <= Instant::now())
    }

    pub(super) fn left(&self) -> Duration {
        self.until.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(Instant::now())
        })
    }
}
