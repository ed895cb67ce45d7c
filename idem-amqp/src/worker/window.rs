//! Which deliveries of a channel can be acknowledged with one frame.
//!
//! `ack_sender` notes here what has ended, and sends the frames that come out. It is pure. What must stay true:
//!
//! - Each tag is settled once, because RabbitMQ closes the channel on the second time.
//! - A frame that settles several never covers a delivery that is still open, because its message would be lost if the
//!   worker died.

use std::collections::{BTreeMap, BTreeSet};

/// The unsettled deliveries of a channel. Tags start at 1 and grow by 1.
///
/// Acknowledging `multiple` up to a tag settles everything before it. So that may only be done for
/// the contiguous prefix of finished deliveries. A tag is in one of four places: undecided, or in
/// `waiting`, `sent` or `ready`; below `lowest` there is nothing undecided.
#[derive(Debug)]
pub(super) struct Window {
    /// The lowest tag that nobody has decided on. It only grows.
    lowest: u64,
    /// Finished deliveries behind an undecided one. The broker was not told of them yet.
    waiting: BTreeSet<u64>,
    /// Runs of deliveries behind an undecided one that the broker was told of, first to last tag.
    /// There are as many as undecided ones at most, however long one of them takes.
    sent: BTreeMap<u64, u64>,
    /// Finished deliveries before `lowest` that the broker was not told of yet: the next frame.
    ready: Ready,
}

/// A run of finished deliveries that one frame can acknowledge: how many, and the highest tag.
#[derive(Debug, Clone, Copy, Default)]
struct Ready {
    count: u64,
    highest: u64,
}

/// One frame to send. `multiple` settles all tags up to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) tag: u64,
    pub(super) multiple: bool,
}

impl Window {
    /// The window of a channel that has had no delivery yet.
    pub(super) fn new() -> Self {
        Self {
            lowest: 1,
            waiting: BTreeSet::new(),
            sent: BTreeMap::new(),
            ready: Ready::default(),
        }
    }

    /// The delivery is finished and waits to be acknowledged. A second call changes nothing.
    pub(super) fn finish(&mut self, tag: u64) {
        if !self.is_decided(tag) {
            self.waiting.insert(tag);
            self.advance();
        }
    }

    /// The broker has been told about the delivery by a frame of its own, and must not be told
    /// again.
    pub(super) fn mark_sent(&mut self, tag: u64) {
        if !self.is_decided(tag) {
            self.add_sent(tag);
            self.advance();
        }
    }

    /// The frame that acknowledges the contiguous prefix, if there is one. Whoever takes it has to
    /// send it: the tags count as settled from here on.
    pub(super) fn prefix(&mut self) -> Option<Ack> {
        let Ready { count, highest } = std::mem::take(&mut self.ready);
        (count > 0).then_some(Ack {
            tag: highest,
            // A lone one goes without `multiple`, as exactly what it is.
            multiple: count > 1,
        })
    }

    /// How many finished deliveries wait behind an undecided one.
    pub(super) fn blocked(&self) -> usize {
        self.waiting.len()
    }

    /// The finished deliveries behind undecided ones, each to be acknowledged by itself. Whoever
    /// takes them has to send them.
    pub(super) fn stragglers(&mut self) -> Vec<Ack> {
        let waiting = std::mem::take(&mut self.waiting);
        let acks = waiting.into_iter().map(|tag| {
            self.add_sent(tag);
            Ack {
                tag,
                multiple: false,
            }
        });
        acks.collect()
    }

    /// Whether the tag was finished, or told to the broker, before.
    fn is_decided(&self, tag: u64) -> bool {
        let run = self.sent.range(..=tag).next_back();
        tag < self.lowest
            || self.waiting.contains(&tag)
            || run.is_some_and(|(_, last)| *last >= tag)
    }

    /// Adds a tag to the runs, joining it with its neighbours. Single tags would add up for as long
    /// as one delivery stays open.
    fn add_sent(&mut self, tag: u64) {
        let last = self.sent.remove(&(tag + 1)).unwrap_or(tag);
        match self.sent.range_mut(..tag).next_back() {
            Some((_, before)) if *before + 1 == tag => *before = last,
            _ => {
                self.sent.insert(tag, last);
            }
        }
    }

    /// Moves `lowest` over what is decided.
    fn advance(&mut self) {
        loop {
            if self.waiting.remove(&self.lowest) {
                self.ready.count += 1;
                self.ready.highest = self.lowest;
                self.lowest += 1;
            // Not counted as ready. A later `multiple` may cover these tags once more: it settles
            // what is outstanding up to its tag, and these are not.
            } else if let Some(last) = self.sent.remove(&self.lowest) {
                self.lowest = last + 1;
            } else {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(tag: u64, multiple: bool) -> Ack {
        Ack { tag, multiple }
    }

    fn finished(tags: &[u64]) -> Window {
        let mut window = Window::new();
        for tag in tags {
            window.finish(*tag);
        }
        window
    }

    #[test]
    fn a_contiguous_prefix_is_one_frame() {
        let mut window = finished(&[2, 1, 3]);
        assert_eq!(window.prefix(), Some(ack(3, true)));
        assert_eq!(window.prefix(), None);
    }

    #[test]
    fn a_lone_delivery_is_acknowledged_by_itself() {
        assert_eq!(finished(&[1]).prefix(), Some(ack(1, false)));
    }

    #[test]
    fn an_unfinished_delivery_is_never_covered_by_a_later_one() {
        let mut window = finished(&[1, 3, 4]);
        assert_eq!(window.prefix(), Some(ack(1, false)));
        assert_eq!(window.blocked(), 2);
        window.finish(2);
        assert_eq!(window.prefix(), Some(ack(4, true)));
    }

    #[test]
    fn stragglers_are_acknowledged_once() {
        let mut window = finished(&[2, 4]);
        assert_eq!(window.prefix(), None);
        let tags: Vec<_> = window.stragglers().iter().map(|ack| ack.tag).collect();
        assert_eq!(tags, [2, 4]);
        assert_eq!(window.blocked(), 0);
        window.finish(1);
        assert_eq!(window.prefix(), Some(ack(1, false)));
        window.finish(3);
        assert_eq!(window.prefix(), Some(ack(3, false)));
    }

    #[test]
    fn a_returned_delivery_is_not_acknowledged() {
        let mut window = finished(&[1]);
        window.mark_sent(2);
        assert_eq!(window.prefix(), Some(ack(1, false)));
        window.finish(3);
        assert_eq!(window.prefix(), Some(ack(3, false)));
    }

    #[test]
    fn one_open_delivery_does_not_make_the_window_grow() {
        let mut window = Window::new();
        for tag in 2..100_000 {
            window.finish(tag);
            if tag % 64 == 0 {
                window.stragglers();
            }
        }
        window.stragglers();
        assert_eq!((window.waiting.len(), window.sent.len()), (0, 1));
        window.finish(1);
        assert_eq!(window.prefix(), Some(ack(1, false)));
        assert_eq!(window.lowest, 100_000);
    }

    #[test]
    fn a_second_ack_changes_nothing() {
        let mut window = finished(&[1]);
        assert_eq!(window.prefix(), Some(ack(1, false)));
        window.finish(1);
        assert_eq!(window.prefix(), None);
    }

    #[test]
    fn any_order_settles_each_tag_exactly_once() {
        let mut tags: Vec<u64> = (1..=200).collect();
        for _ in 0..50 {
            fastrand::shuffle(&mut tags);
            let mut window = Window::new();
            let mut open: std::collections::BTreeSet<u64> = (1..=200).collect();
            let mut undecided = open.clone();
            for tag in &tags {
                window.finish(*tag);
                undecided.remove(tag);
                let straggle = if fastrand::u8(..8) == 0 {
                    window.stragglers()
                } else {
                    vec![]
                };
                for Ack { tag, multiple } in window.prefix().into_iter().chain(straggle) {
                    assert!(open.remove(&tag), "{tag} was settled before");
                    if multiple {
                        assert!(undecided.first().is_none_or(|first| *first > tag));
                        open.retain(|other| *other > tag);
                    }
                }
            }
            assert!(open.is_empty());
        }
    }
}
