//! How long to wait before the next attempt.

use std::time::Duration;

/// Waits that double from attempt to attempt up to a longest one, each shortened by up to half at
/// random so that messages that failed together do not come back together.
///
/// ```
/// use std::time::Duration;
/// use idem_core::{Policy, handler::Backoff};
///
/// const PATIENT: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(10));
/// const POLICY: Policy = Policy::builder().backoff(PATIENT).build_const();
///
/// let third = POLICY.backoff().wait(3);
/// assert!(Duration::from_secs(10) <= third && third <= Duration::from_secs(20));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    /// A backoff that begins with `first` and doubles, up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The wait after the first attempt, before jitter.
    pub const fn first(&self) -> Duration {
        self.first
    }

    /// The longest wait, before jitter.
    pub const fn longest(&self) -> Duration {
        self.longest
    }

    /// The wait after attempt number `attempt` (from 1): between half of the full wait and all of
    /// it.
    pub fn wait(&self, attempt: u32) -> Duration {
        self.jittered(attempt, fastrand::f64())
    }

    /// [`wait`](Self::wait) with the random number given, from 0 to 1.
    pub(crate) fn jittered(&self, attempt: u32, random: f64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(31);
        let full = self.first.saturating_mul(1 << doublings).min(self.longest);
        full.mul_f64(random.mul_add(0.5, 0.5))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_up_to_the_longest() {
        let backoff = Backoff::new(SECOND, 10 * SECOND);
        let full: Vec<_> = (1..=6)
            .map(|attempt| backoff.jittered(attempt, 1.0).as_secs())
            .collect();
        assert_eq!(full, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn jitter_takes_away_half_at_most() {
        assert_eq!(Backoff::new(SECOND, SECOND).jittered(1, 0.0), SECOND / 2);
    }

    #[test]
    fn a_huge_attempt_does_not_overflow() {
        let backoff = Backoff::new(Duration::MAX, Duration::MAX);
        assert!(backoff.jittered(u32::MAX, 0.9) > SECOND);
    }
}
