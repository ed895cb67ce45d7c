//! The sequences of a memory store, and the order in which to remove them.
//!
//! `kept` decides by `store::rules::sequence` under the store's one lock, and writes here; the records are beside this.
//! What must stay true:
//!
//! - Each sequence stands in `by_end` exactly once, under the end that it has.
//! - A sequence does not lose an exception while numbers below its mark count as done.

use std::collections::{BTreeSet, HashMap};

use crate::{message::SequenceKey, store::rules::sequence::Sequence};

#[derive(Default)]
pub(super) struct Sequences {
    by_key: HashMap<SequenceKey, Known>,
    /// The sequences by the time from which they may be removed, so that nobody looks at all of them.
    by_end: BTreeSet<(i64, SequenceKey)>,
}

struct Known {
    sequence: Sequence,
    /// The numbers below the mark that are not done.
    exceptions: BTreeSet<u64>,
}

impl Sequences {
    /// The sequence, expired or not: the rules look at its end.
    pub(super) fn get(&self, key: &SequenceKey) -> Option<&Sequence> {
        self.by_key.get(key).map(|known| &known.sequence)
    }

    /// Whether the number is below the mark and not done.
    pub(super) fn is_exception(&self, key: &SequenceKey, number: u64) -> bool {
        let known = self.by_key.get(key);
        known.is_some_and(|known| known.exceptions.contains(&number))
    }

    /// Writes one that begins, in the place of whatever is left of an earlier one.
    pub(super) fn begin(&mut self, key: &SequenceKey, sequence: Sequence) {
        // Its exceptions would make numbers of the new one late.
        self.remove(key);
        self.by_end.insert((sequence.expires_at, key.clone()));
        let exceptions = BTreeSet::new();
        let begun = Known {
            sequence,
            exceptions,
        };
        self.by_key.insert(key.clone(), begun);
    }

    /// Writes one that is known, with more exceptions.
    pub(super) fn put(&mut self, key: &SequenceKey, sequence: Sequence, exceptions: &[u64]) {
        if let Some(known) = self.by_key.get_mut(key) {
            // Its end may have moved.
            self.by_end
                .remove(&(known.sequence.expires_at, key.clone()));
            self.by_end.insert((sequence.expires_at, key.clone()));
            known.sequence = sequence;
            known.exceptions.extend(exceptions);
        }
    }

    /// Removes at most `batch` sequences and exceptions of those that have expired, and says how
    /// many.
    pub(super) fn purge(&mut self, batch: u32, now: i64) -> u32 {
        let mut left = batch;
        while left > 0
            && let Some((expires_at, key)) = self.by_end.first().cloned()
            && expires_at <= now
        {
            // One exception, or the sequence when it has none left. Its end stays, so the next round finds it again.
            left -= 1;
            match self.by_key.get_mut(&key) {
                Some(known) if !known.exceptions.is_empty() => {
                    // Whatever the clock does next: nobody takes what is lost of them for done.
                    known.sequence.joined = known.sequence.mark;
                    known.exceptions.pop_first();
                }
                _ => self.remove(&key),
            }
        }
        batch - left
    }

    /// Removes a sequence with its exceptions.
    fn remove(&mut self, key: &SequenceKey) {
        if let Some(known) = self.by_key.remove(key) {
            self.by_end
                .remove(&(known.sequence.expires_at, key.clone()));
        }
    }
}
