//! How long running handlers may take to finish: one period for all of a worker.

use std::{sync::OnceLock, time::Duration};

use tokio::time::{Instant, sleep_until, timeout_at};

use super::consumer::Consumer;

/// For handlers that were dropped to end.
const DROP_TIMEOUT: Duration = Duration::from_secs(2);

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

impl Consumer {
    /// Waits for the running handlers; past the grace period they are dropped, and their leases
    /// run out. Waits no longer if it is called again.
    pub(super) async fn finish_running(&self) {
        self.tasks.close();
        let grace_ends = self.grace.end();
        tokio::select! {
            biased;
            () = self.tasks.wait() => return,
            () = sleep_until(grace_ends) => {}
        }
        tracing::warn!(
            queue = self.processor.queue.name(),
            running = self.tasks.len(),
            "the grace period is over, handlers that still run are dropped"
        );
        self.processor.deadline.cancel();
        let dropped = timeout_at(grace_ends + DROP_TIMEOUT, self.tasks.wait());
        if dropped.await.is_err() {
            let running = self.tasks.len();
            tracing::error!(
                running,
                "handlers block their threads and cannot be dropped"
            );
        }
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
