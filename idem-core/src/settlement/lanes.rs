//! Which messages may start where those that have something in common start one after the other. Pure.
//!
//! A transport's worker asks it about each message that arrives, and tells it of each that is done. What must stay
//! true: a message starts at most once, and never before one of its lane that came earlier is done.
// docs/decisions/0048

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// Messages in lanes, each of which has one that may run, and those behind it.
#[derive(Debug)]
pub struct Lanes<K, T> {
    behind: HashMap<K, VecDeque<T>>,
}

impl<K, T> Default for Lanes<K, T> {
    fn default() -> Self {
        Self {
            behind: HashMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash, T> Lanes<K, T> {
    /// The message if it may start now: no other of its lane is there, or it has none.
    pub fn arrives(&mut self, lane: Option<&K>, message: T) -> Option<T> {
        let Some(lane) = lane else {
            return Some(message);
        };
        if let Some(behind) = self.behind.get_mut(lane) {
            behind.push_back(message);
            return None;
        }
        self.behind.insert(lane.clone(), VecDeque::new());
        Some(message)
    }

    /// The message of a lane that might start is done. The next one of it, which may start now.
    pub fn done(&mut self, lane: &K) -> Option<T> {
        let next = self.behind.get_mut(lane)?.pop_front();
        if next.is_none() {
            self.behind.remove(lane);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_lane_start_one_after_the_other() {
        let mut lanes = Lanes::default();
        assert_eq!(lanes.arrives(Some(&"a"), 1), Some(1));
        assert_eq!(lanes.arrives(Some(&"a"), 2), None);
        assert_eq!(lanes.arrives(Some(&"a"), 3), None);
        assert_eq!(lanes.done(&"a"), Some(2));
        assert_eq!(lanes.done(&"a"), Some(3));
        assert_eq!(lanes.done(&"a"), None);
        assert_eq!(lanes.arrives(Some(&"a"), 4), Some(4));
    }

    #[test]
    fn lanes_do_not_wait_for_each_other() {
        let mut lanes = Lanes::default();
        assert_eq!(lanes.arrives(Some(&"a"), 1), Some(1));
        assert_eq!(lanes.arrives(Some(&"b"), 2), Some(2));
        assert_eq!(lanes.arrives(Some(&"c"), 3), Some(3));
        assert_eq!(lanes.arrives(None, 4), Some(4));
        assert_eq!(lanes.arrives(None, 5), Some(5));
    }

    #[test]
    fn in_any_order_of_ends_each_message_starts_once_and_in_its_turn() {
        for _ in 0..50 {
            let mut lanes = Lanes::default();
            let names = ["a", "b", "c"];
            let mut running: Vec<(&str, u32)> = Vec::new();
            let mut last: HashMap<&str, u32> = HashMap::new();
            let mut started = 0;
            for number in 1..=200 {
                let lane = names[fastrand::usize(..3)];
                running.extend(
                    lanes
                        .arrives(Some(&lane), number)
                        .map(|message| (lane, message)),
                );
                while fastrand::bool() && !running.is_empty() {
                    let (lane, message) = running.swap_remove(fastrand::usize(..running.len()));
                    assert!(last.insert(lane, message).is_none_or(|last| last < message));
                    started += 1;
                    running.extend(lanes.done(&lane).map(|next| (lane, next)));
                }
            }
            while let Some((lane, message)) = running.pop() {
                assert!(last.insert(lane, message).is_none_or(|last| last < message));
                started += 1;
                running.extend(lanes.done(&lane).map(|next| (lane, next)));
            }
            assert_eq!(started, 200);
        }
    }
}
