//! How long a try may take before the next one (pure).

use std::time::Duration;

/// Waits that double from one silent try to the next, each longer by up to a quarter at random: calls
/// that began together do not come again together.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryInterval {
    first: Duration,
}

/// A shorter one would make a call a hot loop.
const SHORTEST: Duration = Duration::from_millis(10);

impl RetryInterval {
    pub(super) fn new(first: Duration) -> Self {
        Self {
            first: first.max(SHORTEST),
        }
    }

    /// How long the next try may take, after so many that were met with silence.
    pub(super) fn after(self, silent: u32) -> Duration {
        self.jittered(silent, fastrand::f64())
    }

    fn jittered(self, silent: u32, random: f64) -> Duration {
        let full = self.first.saturating_mul(1 << silent.min(30));
        full.saturating_add((full / 4).mul_f64(random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_from_silence_to_silence() {
        let retry_interval = RetryInterval::new(SECOND);
        let waits: Vec<_> = (0..4)
            .map(|silent| retry_interval.jittered(silent, 0.0))
            .collect();
        assert_eq!(waits, [SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND]);
    }

    #[test]
    fn jitter_adds_a_quarter_at_most_and_takes_nothing_away() {
        assert_eq!(RetryInterval::new(4 * SECOND).jittered(0, 1.0), 5 * SECOND);
    }

    #[test]
    fn no_wait_is_so_short_that_a_call_is_a_hot_loop() {
        assert_eq!(
            RetryInterval::new(Duration::ZERO).jittered(0, 0.0),
            Duration::from_millis(10)
        );
    }

    #[test]
    fn the_longest_wait_does_not_overflow() {
        assert_eq!(
            RetryInterval::new(Duration::MAX).jittered(u32::MAX, 0.9),
            Duration::MAX
        );
    }
}
