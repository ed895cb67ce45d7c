//! Notices that nothing has come for a while.

use std::{mem, time::Duration};

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// When nothing has come for a while.
pub(super) struct Idle {
    looks: Interval,
    received: bool,
}

impl Idle {
    /// Some time between one and two of these after the last delivery.
    pub(super) fn after(pause: Duration) -> Self {
        let mut looks = interval_at(Instant::now() + pause, pause);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let received = false;
        Self { looks, received }
    }

    pub(super) fn received(&mut self) {
        self.received = true;
    }

    /// # Cancel safety
    /// Nothing is forgotten.
    pub(super) async fn elapsed(&mut self) {
        loop {
            self.looks.tick().await;
            if !mem::take(&mut self.received) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::time::advance;

    use super::*;

    const PAUSE: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_noticed_and_one_that_a_delivery_interrupted_is_none() {
        let mut idle = Idle::after(PAUSE);
        assert_eq!(idle.elapsed().now_or_never(), None);
        advance(PAUSE).await;
        assert_eq!(idle.elapsed().now_or_never(), Some(()));

        idle.received();
        advance(PAUSE).await;
        assert_eq!(idle.elapsed().now_or_never(), None);
        advance(PAUSE).await;
        assert_eq!(idle.elapsed().now_or_never(), Some(()));
    }
}
