//! Whether one thing that a worker needs is as it should be, and if not, for how long.

use std::time::Duration;

use tokio::time::Instant;

/// What comes back and fails again within this time had not come back: a queue that is consumed
/// for a moment, again and again, is a queue that is not consumed.
const STEADY: Duration = Duration::from_secs(10);

/// Well or ill, since when, and why.
#[derive(Debug, Clone, Default)]
pub(super) struct Condition {
    /// Since when it is well, if it is.
    well: Option<Instant>,
    /// Since when it is ill; while it is well, since when it was ill the last time.
    ill: Option<Instant>,
    error: Option<String>,
    /// How many wait because of it.
    waiting: usize,
}

impl Condition {
    pub(super) fn well(now: Instant) -> Self {
        Self {
            well: Some(now),
            ..Self::default()
        }
    }

    pub(super) fn ill(now: Instant) -> Self {
        Self {
            ill: Some(now),
            ..Self::default()
        }
    }

    pub(super) fn recover(&mut self, now: Instant) {
        self.well.get_or_insert(now);
    }

    /// Why, if it is known; what is known already is kept if it is not.
    pub(super) fn fail(&mut self, now: Instant, error: Option<String>) {
        let was_well = self.well.take();
        let steady = was_well.is_some_and(|since| now - since >= STEADY);
        if steady || self.ill.is_none() {
            self.ill = Some(now);
        }
        if was_well.is_some() || error.is_some() {
            self.error = error;
        }
    }

    /// One more waits because of it.
    pub(super) fn wait(&mut self, now: Instant, error: String) {
        self.waiting += 1;
        self.fail(now, Some(error));
    }

    /// One that has waited does not any more. Where nobody waits, nothing is known to be wrong.
    pub(super) fn end_wait(&mut self, now: Instant) {
        self.waiting = self.waiting.saturating_sub(1);
        if self.waiting == 0 {
            self.recover(now);
        }
    }

    /// How long it has been well, if it is.
    pub(super) fn well_for(&self, now: Instant) -> Option<Duration> {
        self.well.map(|since| now - since)
    }

    /// How long it has been ill, if it is.
    pub(super) fn ill_for(&self, now: Instant) -> Option<Duration> {
        match self.well {
            Some(_) => None,
            None => self.ill.map(|since| now - since),
        }
    }

    /// Why it is ill, or was the last time.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_illness_is_as_old_as_its_beginning() {
        let start = Instant::now();
        let mut condition = Condition::well(start);
        assert_eq!(condition.ill_for(start + SECOND), None);
        condition.fail(start + SECOND, Some("gone".into()));
        condition.fail(start + 3 * SECOND, Some("still gone".into()));
        assert_eq!(condition.ill_for(start + 4 * SECOND), Some(3 * SECOND));
        assert_eq!(condition.error(), Some("still gone"));
        condition.recover(start + 5 * SECOND);
        assert_eq!(condition.ill_for(start + 6 * SECOND), None);
        assert_eq!(condition.well_for(start + 6 * SECOND), Some(SECOND));
    }

    #[test]
    fn a_short_recovery_is_none() {
        let start = Instant::now();
        let mut condition = Condition::ill(start);
        condition.recover(start + SECOND);
        condition.fail(start + 2 * SECOND, None);
        assert_eq!(condition.ill_for(start + 3 * SECOND), Some(3 * SECOND));
        condition.recover(start + 4 * SECOND);
        condition.fail(start + 14 * SECOND, None);
        assert_eq!(condition.ill_for(start + 15 * SECOND), Some(SECOND));
    }

    #[test]
    fn the_reason_of_an_earlier_illness_is_not_that_of_a_later_one() {
        let start = Instant::now();
        let mut condition = Condition::well(start);
        condition.fail(start, Some("gone".into()));
        condition.fail(start, None);
        assert_eq!(condition.error(), Some("gone"));
        condition.recover(start);
        condition.fail(start, None);
        assert_eq!(condition.error(), None);
    }
}
