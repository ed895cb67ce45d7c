//! Sequences whose messages wait for a number that has not come, or is not done.

use std::{collections::HashMap, time::Duration};

use idem_core::message::{SequenceKey, SequencePlace};
use tokio::time::Instant;

use super::pause::Pause;

/// The sequences of one queue that wait.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    waiting: HashMap<SequenceKey, Gap>,
    /// Keeps the log from being told too often.
    pause: Pause,
}

/// What is known of a sequence that waits.
#[derive(Debug)]
struct Gap {
    /// The lowest number that is not done.
    mark: u64,
    /// Since when the mark has been there.
    since: Instant,
    /// The lowest number that waits for it.
    lowest: u64,
    /// When it was last found waiting.
    seen: Instant,
}

/// At most so many sequences are kept: that is enough to tell what is wrong.
const MOST: usize = 1000;

/// What waits on the ladder comes back before, or another worker has seen to it.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(15);

impl Gaps {
    /// A message waits, the lowest number of its sequence that is not done being this. Says whether
    /// it is time to say so.
    pub(super) fn ahead(&mut self, place: &SequencePlace, mark: u64, now: Instant) -> bool {
        if let Some(gap) = self.waiting.get_mut(&place.sequence) {
            gap.see(place.number, mark, now);
        } else {
            self.make_room(now);
            let gap = Gap {
                mark,
                since: now,
                lowest: place.number,
                seen: now,
            };
            self.waiting.insert(place.sequence.clone(), gap);
        }
        self.pause.try_tell(now)
    }

    /// If there are as many as may be, those go that nobody has met for long, or else the one that was
    /// not met for the longest.
    fn make_room(&mut self, now: Instant) {
        if self.waiting.len() < MOST {
            return;
        }
        self.waiting
            .retain(|_, gap| now - gap.seen < FORGOTTEN_AFTER);
        if self.waiting.len() < MOST {
            return;
        }
        let oldest = self.waiting.iter().min_by_key(|(_, gap)| gap.seen);
        if let Some(sequence) = oldest.map(|(sequence, _)| sequence.clone()) {
            self.waiting.remove(&sequence);
        }
    }

    /// A message of a sequence did not have to wait. If the lowest one that waited is not above it,
    /// what was missing is not any more.
    pub(super) fn in_turn(&mut self, place: &SequencePlace) {
        if let Some(gap) = self.waiting.get(&place.sequence)
            && gap.lowest <= place.number
        {
            self.waiting.remove(&place.sequence);
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// For how long the mark that has stood still for the longest has, and what is waited for there.
    pub(super) fn longest(&self, now: Instant) -> Option<(Duration, String)> {
        let still = self.waiting.iter();
        let still = still.filter(|(_, gap)| now - gap.seen < FORGOTTEN_AFTER);
        let others = still.clone().count().saturating_sub(1);
        let (sequence, gap) = still.min_by_key(|(_, gap)| gap.since)?;
        let mut text = format!("`{sequence}` waits for {}", gap.mark);
        if others > 0 {
            text = format!("{text}, and {others} further sequences wait");
        }
        Some((now - gap.since, text))
    }
}

impl Gap {
    fn see(&mut self, number: u64, mark: u64, now: Instant) {
        if mark > self.mark {
            *self = Self {
                mark,
                since: now,
                lowest: number,
                seen: now,
            };
        }
        self.lowest = self.lowest.min(number);
        self.seen = now;
    }
}

#[cfg(test)]
mod tests {
    use idem_core::Key;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn place(device: &str, number: u64) -> SequencePlace {
        SequencePlace::new(Key::new("readings", device).unwrap(), number)
    }

    fn told(gaps: &Gaps, now: Instant) -> Option<(Duration, String)> {
        gaps.longest(now)
    }

    #[test]
    fn a_gap_lasts_until_what_waited_for_it_has_its_turn() {
        let (mut gaps, start) = (Gaps::default(), Instant::now());
        gaps.ahead(&place("d-7", 1200), 17, start);
        gaps.ahead(&place("d-7", 1100), 17, start + SECOND);
        let text = "`readings:d-7` waits for 17".to_owned();
        assert_eq!(told(&gaps, start + 3 * SECOND), Some((3 * SECOND, text)));
        gaps.in_turn(&place("d-7", 1099));
        gaps.in_turn(&place("d-8", 1100));
        assert!(told(&gaps, start).is_some());
        gaps.in_turn(&place("d-7", 1100));
        assert!(gaps.is_empty());
    }

    #[test]
    fn a_gap_begins_anew_when_the_mark_has_moved() {
        let (mut gaps, start) = (Gaps::default(), Instant::now());
        gaps.ahead(&place("d-7", 1100), 17, start);
        gaps.ahead(&place("d-7", 1500), 400, start + 5 * SECOND);
        let (lasting, text) = told(&gaps, start + 6 * SECOND).unwrap();
        assert_eq!((lasting, &*text), (SECOND, "`readings:d-7` waits for 400"));
        gaps.in_turn(&place("d-7", 1100));
        assert!(!gaps.is_empty(), "1500 still waits");
    }

    #[test]
    fn the_one_that_waits_for_the_longest_is_told_and_the_others_are_counted() {
        let (mut gaps, start) = (Gaps::default(), Instant::now());
        gaps.ahead(&place("d-7", 1100), 17, start + SECOND);
        gaps.ahead(&place("d-8", 2000), 3, start);
        let (lasting, text) = told(&gaps, start + SECOND).unwrap();
        assert_eq!(lasting, SECOND);
        assert_eq!(
            text,
            "`readings:d-8` waits for 3, and 1 further sequences wait"
        );
    }

    #[test]
    fn a_gap_that_nobody_has_met_for_long_is_not_told() {
        let (mut gaps, start) = (Gaps::default(), Instant::now());
        gaps.ahead(&place("d-7", 1100), 17, start);
        assert!(told(&gaps, start + FORGOTTEN_AFTER - SECOND).is_some());
        assert_eq!(told(&gaps, start + FORGOTTEN_AFTER), None);
    }

    #[test]
    fn the_log_is_told_once_a_minute() {
        let (mut gaps, start) = (Gaps::default(), Instant::now());
        let due = [0_u32, 1, 59, 60, 61, 120].map(|second| {
            let number = 1000 + u64::from(second);
            gaps.ahead(&place("d-7", number), 0, start + SECOND * second)
        });
        assert_eq!(due, [true, false, false, true, false, true]);
    }

    #[test]
    fn of_very_many_sequences_those_are_kept_that_were_met_last() {
        let (mut gaps, start) = (Gaps::default(), Instant::now());
        let met = |gaps: &mut Gaps, device: usize, at: usize| {
            let at = start + SECOND * u32::try_from(at).unwrap() / 100;
            gaps.ahead(&place(&device.to_string(), 2000), 0, at);
        };
        for device in 0..MOST {
            met(&mut gaps, device, device);
        }
        met(&mut gaps, 0, MOST);
        for device in MOST..MOST + 10 {
            met(&mut gaps, device, device);
        }
        assert_eq!(gaps.waiting.len(), MOST);
        let is_kept = |device: usize| {
            let sequence = place(&device.to_string(), 0).sequence;
            gaps.waiting.contains_key(&sequence)
        };
        assert!(is_kept(0) && !is_kept(1) && !is_kept(10) && is_kept(11));
        assert!(is_kept(MOST + 9));
    }

    #[test]
    fn sequences_that_nobody_has_met_for_long_make_room_all_at_once() {
        let (mut gaps, start) = (Gaps::default(), Instant::now());
        for device in 0..MOST {
            gaps.ahead(&place(&device.to_string(), 2000), 0, start);
        }
        gaps.ahead(&place("new", 2000), 0, start + FORGOTTEN_AFTER);
        assert_eq!(gaps.waiting.len(), 1);
    }
}
