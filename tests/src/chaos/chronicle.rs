//! What happens when, told as it happens.

use std::{fmt::Display, time::Duration};

use tokio::time::{Instant, sleep_until};

/// A clock that starts with the first order.
#[derive(Debug)]
pub(super) struct Chronicle(Instant);

impl Chronicle {
    pub(super) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Waits until so many milliseconds have passed since the beginning.
    pub(super) async fn until(&self, milliseconds: u64) {
        sleep_until(self.0 + Duration::from_millis(milliseconds)).await;
    }

    /// Tells something on the standard error output.
    pub(super) fn tell(&self, what: impl Display) {
        eprintln!("{:>8.3} s  {what}", self.0.elapsed().as_secs_f64());
    }
}
