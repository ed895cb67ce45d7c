//! How long running handlers may take to finish: one period for all of a worker.

use std::{sync::OnceLock, time::Duration};

use tokio::time::Instant;

/// What is longer than a clock can tell ends after this.
const FOR_EVER: Duration = Duration::from_hours(24 * 365);

/// A period that begins once.
#[derive(Debug)]
pub(super) struct Grace {
    period: Duration,
    begun: OnceLock<Instant>,
}

impl Grace {
    pub(super) fn new(period: Duration) -> Self {
        Self {
            period,
            begun: OnceLock::new(),
        }
    }

    /// When it is over. It begins with the first call.
    pub(super) fn end(&self) -> Instant {
        let begun = *self.begun.get_or_init(Instant::now);
        begun.checked_add(self.period).unwrap_or(begun + FOR_EVER)
    }

    /// How much of it is left.
    pub(super) fn left(&self) -> Duration {
        self.end().saturating_duration_since(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_grace_period_is_granted_once() {
        let grace = Grace::new(3 * SECOND);
        let end = grace.end();
        advance(2 * SECOND).await;
        assert_eq!((grace.end(), grace.left()), (end, SECOND));
        advance(2 * SECOND).await;
        assert_eq!((grace.end(), grace.left()), (end, Duration::ZERO));
        assert!(Grace::new(Duration::MAX).left() > SECOND);
    }
}
