//! How far the records to purge were looked through.
//!
//! The index of purge times holds what was removed, too, as long as any transaction may see it. A purge that began at
//! its start each time would read all of that for each thousand records. So it goes on from where the last one ended,
//! and begins at the start once a minute: what was locked, or to be remembered for longer, when it was passed is removed
//! then.

use std::time::Duration;

use tokio::time::Instant;

const WHOLE_EVERY: Duration = Duration::from_mins(1);

/// How far a store has looked; purge times are microseconds since 1970.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// The last purge time that was found.
    up_to: Option<i64>,
    /// When it was looked from the start on.
    whole: Option<Instant>,
}

impl Looked {
    /// The purge time to go on from; `None` is the start.
    pub(super) fn from(&self, now: Instant) -> Option<i64> {
        let whole = self.whole?;
        let is_due = now.duration_since(whole) > WHOLE_EVERY;
        self.up_to.filter(|_| !is_due)
    }

    /// It was looked from there on, and up to there, if there was anything.
    pub(super) fn note(&mut self, now: Instant, from: Option<i64>, up_to: Option<i64>) {
        if from.is_none() {
            *self = Self {
                up_to: None,
                whole: Some(now),
            };
        }
        self.up_to = up_to.or(self.up_to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_from_the_last_purge_time_and_begins_anew_once_a_minute() {
        let (mut looked, now) = (Looked::default(), Instant::now());
        let after = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(looked.from(now), None);
        looked.note(now, None, None);
        assert_eq!(looked.from(after(1)), None, "there was nothing");
        looked.note(after(1), None, Some(7));
        assert_eq!(looked.from(after(61)), Some(7));
        looked.note(after(61), Some(7), None);
        assert_eq!(looked.from(after(61)), Some(7));
        looked.note(after(61), Some(7), Some(9));
        assert_eq!(looked.from(after(61)), Some(9));
        assert_eq!(looked.from(after(62)), None, "a minute is over");
    }
}
