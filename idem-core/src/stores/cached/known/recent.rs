//! A map of keys that is bounded by their number and their weight: what was not used for longest goes first, and what
//! was written too long ago is not there. What is known of a claim stays while there is room: if it went while the
//! claim is held, the same owner's next claim would be taken for its first, whose content the store keeps.

use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

use super::{Entry, Limits, OLDEST_ANSWER, weight};
use crate::message::Key;

/// What was used last.
pub(super) struct Recent {
    /// The entries in the order of their use.
    entries: LruCache<Key, Dated>,
    /// The weight of all entries together.
    weight: u64,
    limits: Limits,
}

struct Dated {
    entry: Entry,
    at: Instant,
}

impl Recent {
    /// Keeps within these limits.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            entries: LruCache::unbounded(),
            weight: 0,
            limits,
        }
    }

    /// What is known of the key, which is used by this.
    pub(super) fn get(&mut self, key: &Key, now: Instant) -> Option<&Entry> {
        let longest = self.limits.longest;
        let dated = self.entries.get(key)?;
        (!dated.is_over(longest, now)).then_some(&dated.entry)
    }

    /// What is known of the key, which is not used by this.
    pub(super) fn peek(&self, key: &Key, now: Instant) -> Option<&Entry> {
        let dated = self.entries.peek(key)?;
        (!dated.is_over(self.limits.longest, now)).then_some(&dated.entry)
    }

    /// Writes what is known of the key from now on, and drops what there is no room for any more.
    pub(super) fn put(&mut self, key: &Key, entry: Entry, now: Instant) {
        let added = weight(key, &entry);
        // It would push all others out, and then itself.
        if added > self.limits.bytes {
            return self.remove(key);
        }
        self.weight += added;
        let dated = Dated { entry, at: now };
        if let Some(known) = self.entries.get_mut(key) {
            self.weight -= weight(key, &known.entry);
            *known = dated;
        } else {
            self.entries.put(key.clone(), dated);
        }
        while self.has_too_much(now) {
            let Some((key, dropped)) = self.entries.pop_lru() else {
                break;
            };
            self.weight -= weight(&key, &dropped.entry);
        }
    }

    /// Forgets the key.
    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(removed) = self.entries.pop(key) {
            self.weight -= weight(key, &removed.entry);
        }
    }

    /// What is over goes when all that was used earlier is gone.
    fn has_too_much(&self, now: Instant) -> bool {
        let oldest = self.entries.peek_lru();
        self.weight > self.limits.bytes
            || self.entries.len() > self.limits.entries
            || oldest.is_some_and(|(_, dated)| dated.is_over(self.limits.longest, now))
    }
}

impl Dated {
    fn is_over(&self, longest: Duration, now: Instant) -> bool {
        let longest = match &self.entry {
            Entry::Claimed(_) | Entry::Completing(_) => return false,
            Entry::Completed(completed) => longest.min(completed.remaining),
            Entry::Intervened(_) => OLDEST_ANSWER,
        };
        now.saturating_duration_since(self.at) >= longest
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Completed, *};
    use crate::handler::Outcome;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(number: u32) -> Key {
        Key::new("recent", number).unwrap()
    }

    fn entry(now: Instant) -> Entry {
        Entry::Intervened(now)
    }

    fn each() -> u64 {
        weight(&key(0), &entry(Instant::now()))
    }

    fn of(bytes: u64, entries: usize) -> Recent {
        Recent::new(Limits {
            bytes,
            entries,
            longest: 60 * SECOND,
        })
    }

    fn known(recent: &Recent, now: Instant) -> Vec<u32> {
        let numbers = 0..10;
        numbers
            .filter(|it| recent.peek(&key(*it), now).is_some())
            .collect()
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first_and_a_look_is_no_use() {
        let now = Instant::now();
        let mut recent = of(3 * each(), usize::MAX);
        for number in 0..3 {
            recent.put(&key(number), entry(now), now);
        }
        assert!(recent.get(&key(0), now).is_some());
        assert!(recent.peek(&key(1), now).is_some());
        recent.put(&key(3), entry(now), now);
        assert_eq!(known(&recent, now), [0, 2, 3]);
        recent.put(&key(2), entry(now), now);
        recent.put(&key(4), entry(now), now);
        assert_eq!(known(&recent, now), [2, 3, 4]);
        assert_eq!(recent.weight, 3 * each());
    }

    #[test]
    fn no_more_keys_are_known_than_are_allowed() {
        let now = Instant::now();
        let mut recent = of(100 * each(), 2);
        for number in [0, 1, 1, 2] {
            recent.put(&key(number), entry(now), now);
        }
        assert_eq!(known(&recent, now), [1, 2]);
        assert_eq!(recent.weight, 2 * each());
        let mut none = of(100 * each(), 0);
        none.put(&key(0), entry(now), now);
        assert!(known(&none, now).is_empty());
    }

    #[test]
    fn what_the_retention_has_ended_of_gives_its_memory_back() {
        let start = Instant::now();
        let mut recent = of(100 * each(), usize::MAX);
        let completed = Entry::Completed(Completed {
            outcome: Outcome::default(),
            fingerprint: None,
            asked: start,
            remaining: 10 * SECOND,
        });
        recent.put(&key(0), completed, start);
        assert_eq!(known(&recent, start + 9 * SECOND), [0]);
        assert!(known(&recent, start + 10 * SECOND).is_empty());
        let later = start + 11 * SECOND;
        recent.put(&key(1), entry(later), later);
        assert_eq!(recent.weight, each());
    }

    #[test]
    fn what_was_written_too_long_ago_is_not_there_however_often_it_is_used() {
        let start = Instant::now();
        let mut recent = of(100 * each(), usize::MAX);
        recent.put(&key(0), entry(start), start);
        for second in [20, 40, 59] {
            assert!(recent.get(&key(0), start + second * SECOND).is_some());
        }
        assert!(recent.get(&key(0), start + 60 * SECOND).is_none());
        assert!(recent.peek(&key(0), start + 60 * SECOND).is_none());
    }

    #[test]
    fn what_is_over_gives_its_memory_back() {
        let start = Instant::now();
        let mut recent = of(100 * each(), usize::MAX);
        for number in 0..5 {
            recent.put(&key(number), entry(start), start);
        }
        let later = start + 30 * SECOND;
        recent.put(&key(5), entry(later), later);
        // It is over first, and was used last.
        assert!(recent.get(&key(0), later).is_some());
        recent.put(&key(6), entry(later), start + 60 * SECOND);
        assert_eq!(recent.entries.len(), 3, "0, 5 and 6");
        recent.put(&key(7), entry(later), start + 90 * SECOND);
        assert_eq!(recent.entries.len(), 2, "6 and 7");
        assert_eq!(recent.weight, 2 * each());
    }

    #[test]
    fn what_is_heavier_than_all_room_pushes_nothing_out() {
        let now = Instant::now();
        let mut recent = of(each(), usize::MAX);
        recent.put(&key(1), entry(now), now);
        let long = Key::new("recent", "a longer one").unwrap();
        recent.put(&long, entry(now), now);
        assert_eq!(known(&recent, now), [1]);
        recent.remove(&key(1));
        assert_eq!(recent.weight, 0);
    }
}
