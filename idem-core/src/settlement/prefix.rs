//! How far all is done where messages come in an order. Pure.
//!
//! Tags number the deliveries from 1 on and grow by one; offsets grow with holes: what was not delivered below a
//! delivered offset never comes. What must stay true: the mark passes a delivery only when that and all before it are
//! done.

use std::collections::{BTreeSet, VecDeque};

/// The deliveries of one reading, and the mark.
#[derive(Debug)]
pub struct Prefix {
    /// The lowest offset that is not done; none before the handler has begun.
    mark: Option<u64>,
    /// The tag of the first entry: all before it are done.
    first: u64,
    /// The deliveries from the first entry on, in the order in which they came.
    entries: VecDeque<Entry>,
    /// Whether the store has been told of this mark.
    is_saved: bool,
    /// All tags below it are below the mark that the store has.
    saved: u64,
    /// How many tags from there on may be acknowledged.
    window: u64,
    /// Done, and beyond that.
    held: BTreeSet<u64>,
    /// The offset that comes next if nothing is missing. `None` before the first delivery, unless it is expected at the
    /// mark.
    expected: Option<u64>,
    /// Where the largest hole begins that nobody has looked at yet, and its size.
    hole: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Entry {
    /// Where the mark is when this is done.
    next: u64,
    is_done: bool,
}

/// A mark that the store is told, and the first tag above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved {
    /// All offsets below it are done.
    pub mark: u64,
    first: u64,
}

impl Prefix {
    /// The prefix of a reading that has no deliveries yet, at the mark that the store has.
    pub fn new(mark: Option<u64>, window: u64) -> Self {
        Self {
            mark,
            first: 1,
            entries: VecDeque::new(),
            is_saved: true,
            saved: 1,
            window,
            held: BTreeSet::new(),
            expected: None,
            hole: None,
        }
    }

    /// Counts what is missing between the mark and the first delivery as a hole, too. Without this, only what is
    /// missing between two deliveries counts.
    pub fn expecting_from_mark(self) -> Self {
        Self {
            expected: self.mark,
            ..self
        }
    }

    /// The lowest offset that is not done; none before the handler has begun.
    pub fn mark(&self) -> Option<u64> {
        self.mark
    }

    /// How many deliveries have come.
    pub fn arrived(&self) -> u64 {
        self.first - 1 + self.entries.len() as u64
    }

    /// All tags below it are below the mark that the store has.
    pub fn saved_below(&self) -> u64 {
        self.saved
    }

    /// The tag of the delivery that holds the mark up.
    pub fn front(&self) -> Option<u64> {
        (!self.entries.is_empty()).then_some(self.first)
    }

    /// How many deliveries above the mark are done.
    pub fn done_above(&self) -> usize {
        self.entries.iter().filter(|entry| entry.is_done).count()
    }

    /// Whether all that has come is done, up to this mark.
    pub fn rests_at(&self, mark: Option<u64>) -> bool {
        self.entries.is_empty() && self.mark == mark
    }

    /// The first offset of the largest hole among those that have come since the last call.
    pub fn take_hole(&mut self) -> Option<u64> {
        self.hole.take().map(|(begins, _)| begins)
    }

    /// The handler begins here.
    pub fn pin(&mut self, offset: u64) {
        self.mark = Some(offset);
        self.is_saved = false;
    }

    /// The next delivery. One whose offset is not known moves the mark only with the one behind it.
    pub fn arrives(&mut self, tag: u64, offset: Option<u64>) {
        debug_assert_eq!(tag, self.arrived() + 1, "tags grow by one");
        if let Some(offset) = offset {
            self.note_hole(offset);
        }
        let before = self.entries.back().map(|entry| entry.next);
        let before = before.or(self.mark).unwrap_or(0);
        let next = offset.map_or(before, |offset| offset.saturating_add(1));
        self.entries.push_back(Entry {
            next: next.max(before),
            is_done: false,
        });
    }

    fn note_hole(&mut self, offset: u64) {
        let expected = self.expected.replace(offset.saturating_add(1));
        let Some(expected) = expected.filter(|expected| *expected < offset) else {
            return;
        };
        let size = offset - expected;
        if self.hole.is_none_or(|(_, largest)| size > largest) {
            self.hole = Some((expected, size));
        }
    }

    /// A delivery is done. Says whether it may be acknowledged now.
    pub fn done(&mut self, tag: u64) -> bool {
        let at = tag.checked_sub(self.first);
        let at = at.and_then(|at| usize::try_from(at).ok());
        if let Some(entry) = at.and_then(|at| self.entries.get_mut(at)) {
            entry.is_done = true;
        }
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.is_done) {
            self.first += 1;
            if Some(entry.next) > self.mark {
                self.mark = Some(entry.next);
                self.is_saved = false;
            }
        }
        let may_ack = tag < self.saved.saturating_add(self.window);
        if !may_ack {
            self.held.insert(tag);
        }
        may_ack
    }

    /// Whether the store is to be told soon.
    pub fn is_due(&self) -> bool {
        self.first - self.saved >= self.window / 4
    }

    /// What the store is to be told, if anything.
    pub fn moved(&self) -> Option<Saved> {
        let mark = self.mark.filter(|_| !self.is_saved)?;
        let first = self.first;
        Some(Saved { mark, first })
    }

    /// The store has been told. Says what may be acknowledged now.
    pub fn saved(&mut self, saved: Saved) -> Vec<u64> {
        // A save that ends late says less than one that has ended before it.
        self.is_saved |= self.mark == Some(saved.mark);
        self.saved = self.saved.max(saved.first);
        let beyond = self.held.split_off(&self.saved.saturating_add(self.window));
        std::mem::replace(&mut self.held, beyond)
            .into_iter()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deliveries of these offsets, none done.
    fn delivered(mark: Option<u64>, offsets: &[u64]) -> Prefix {
        let mut prefix = Prefix::new(mark, 4);
        for (tag, offset) in (1..).zip(offsets) {
            prefix.arrives(tag, Some(*offset));
        }
        prefix
    }

    #[test]
    fn the_mark_passes_what_is_done_and_all_before_it() {
        let mut prefix = delivered(None, &[5, 6, 7]);
        assert_eq!(prefix.mark(), None);
        prefix.done(2);
        assert_eq!(prefix.mark(), None);
        prefix.done(1);
        assert_eq!(prefix.mark(), Some(7));
        prefix.done(3);
        assert_eq!(prefix.mark(), Some(8));
    }

    #[test]
    fn the_mark_passes_holes() {
        let mut prefix = delivered(Some(5), &[5, 9, 40]);
        prefix.done(2);
        assert_eq!(prefix.mark(), Some(5));
        prefix.done(1);
        assert_eq!(prefix.mark(), Some(10));
    }

    #[test]
    fn the_largest_hole_is_told_once() {
        let mut prefix = delivered(Some(5), &[5, 6, 8, 40, 42]);
        assert_eq!(prefix.take_hole(), Some(9));
        assert_eq!(prefix.take_hole(), None);
        prefix.arrives(6, Some(43));
        assert_eq!(prefix.take_hole(), None);
    }

    #[test]
    fn what_does_not_come_from_the_mark_on_is_a_hole_if_that_is_asked_for() {
        for (mark, hole) in [(0, Some(0)), (5, Some(5)), (8, None)] {
            let mut prefix = Prefix::new(Some(mark), 4).expecting_from_mark();
            prefix.arrives(1, Some(8));
            assert_eq!(prefix.take_hole(), hole);
        }
    }

    #[test]
    fn the_front_is_the_delivery_that_holds_the_mark_up() {
        let mut prefix = delivered(Some(5), &[5, 6, 7]);
        assert_eq!((prefix.front(), prefix.done_above()), (Some(1), 0));
        prefix.done(2);
        assert_eq!((prefix.front(), prefix.done_above()), (Some(1), 1));
        prefix.done(1);
        assert_eq!((prefix.front(), prefix.done_above()), (Some(3), 0));
        assert!(!prefix.rests_at(Some(7)));
        prefix.done(3);
        assert_eq!(prefix.front(), None);
        assert!(prefix.rests_at(Some(8)) && !prefix.rests_at(Some(7)));
    }

    #[test]
    fn a_mark_never_moves_back() {
        let mut prefix = delivered(Some(8), &[7, 8]);
        prefix.done(1);
        assert_eq!((prefix.mark(), prefix.moved()), (Some(8), None));
        prefix.done(1);
        prefix.done(2);
        assert_eq!(prefix.mark(), Some(9));
    }

    #[test]
    fn a_delivery_without_an_offset_is_passed_with_the_next_one() {
        let mut prefix = delivered(Some(3), &[3]);
        prefix.arrives(2, None);
        prefix.arrives(3, Some(5));
        prefix.done(1);
        prefix.done(2);
        assert_eq!(prefix.mark(), Some(4));
        prefix.done(3);
        assert_eq!(prefix.mark(), Some(6));
    }

    #[test]
    fn what_is_done_far_above_the_saved_mark_is_not_acknowledged() {
        let mut prefix = delivered(Some(0), &[0, 1, 2, 3, 4, 5, 6]);
        let acknowledged: Vec<_> = (2..=7).filter(|tag| prefix.done(*tag)).collect();
        assert_eq!(acknowledged, [2, 3, 4]);
        assert_eq!(prefix.moved(), None);
        assert!(prefix.done(1));
        let moved = prefix.moved().unwrap();
        assert_eq!(moved.mark, 7);
        assert_eq!(prefix.saved(moved), [5, 6, 7]);
        assert_eq!(prefix.moved(), None);
    }

    #[test]
    fn what_is_done_while_the_mark_is_saved_is_saved_next() {
        let mut prefix = delivered(Some(0), &[0, 1]);
        prefix.done(1);
        let first = prefix.moved().unwrap();
        prefix.done(2);
        prefix.saved(first);
        assert_eq!(prefix.moved().map(|saved| saved.mark), Some(2));
    }

    #[test]
    fn a_save_that_ends_late_takes_nothing_back() {
        let mut prefix = delivered(Some(0), &[0, 1]);
        prefix.done(1);
        let early = prefix.moved().unwrap();
        prefix.done(2);
        let late = prefix.moved().unwrap();
        prefix.saved(late);
        prefix.saved(early);
        assert_eq!((prefix.saved_below(), prefix.moved()), (3, None));
    }

    #[test]
    fn the_store_is_told_before_the_window_is_full() {
        let mut prefix = delivered(Some(0), &[0, 1]);
        assert!(!prefix.is_due());
        prefix.done(1);
        assert!(prefix.is_due());
        let moved = prefix.moved().unwrap();
        prefix.saved(moved);
        assert!(!prefix.is_due());
    }

    #[test]
    fn in_any_order_the_mark_is_the_lowest_offset_that_is_not_done() {
        for _ in 0..50 {
            let offsets: Vec<u64> = (0..200)
                .scan(0, |at, _| {
                    *at += fastrand::u64(1..4);
                    Some(*at)
                })
                .collect();
            let mut prefix = delivered(Some(0), &offsets);
            let mut open: BTreeSet<u64> = offsets.iter().copied().collect();
            let mut tags: Vec<u64> = (1..=200).collect();
            fastrand::shuffle(&mut tags);
            let mut acknowledged = BTreeSet::new();
            for tag in tags {
                if prefix.done(tag) {
                    assert!(acknowledged.insert(tag));
                }
                open.remove(&offsets[usize::try_from(tag - 1).unwrap()]);
                let mark = prefix.mark().unwrap();
                assert!(open.first().is_none_or(|lowest| mark <= *lowest));
                assert!(
                    offsets
                        .iter()
                        .all(|offset| *offset >= mark || !open.contains(offset))
                );
                if fastrand::bool()
                    && let Some(moved) = prefix.moved()
                {
                    for tag in prefix.saved(moved) {
                        assert!(acknowledged.insert(tag));
                    }
                }
            }
            assert_eq!(prefix.mark(), offsets.last().map(|last| last + 1));
        }
    }
}
