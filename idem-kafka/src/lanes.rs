//! Which records of a partition may start: those of one lane start one after the other. Pure.
//!
//! `reading` asks it about each record that arrives, and tells it of each that is done. What must stay true: a record starts
//! at most once, and never before one of its lane that came earlier is done.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use crate::{Order, Record};

/// What records have in common that wait for each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    Partition,
    Key(Bytes),
}

impl Lane {
    /// The lane of a record; `None` if it waits for no other.
    pub(crate) fn of(record: &Record, order: Order) -> Option<Self> {
        match order {
            // In which order records come again is not theirs.
            _ if record.comes_again() => None,
            Order::ByPartition => Some(Self::Partition),
            Order::ByKey => record.shared_key().map(Self::Key),
            Order::Unordered => None,
        }
    }
}

/// Records in lanes, each of which has a record that may run, and those behind it.
#[derive(Debug)]
pub(crate) struct Lanes<T> {
    behind: HashMap<Lane, VecDeque<T>>,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self {
            behind: HashMap::new(),
        }
    }
}

impl<T> Lanes<T> {
    /// The record if it may start now.
    pub(crate) fn arrives(&mut self, lane: Option<&Lane>, record: T) -> Option<T> {
        let Some(lane) = lane else {
            return Some(record);
        };
        if let Some(behind) = self.behind.get_mut(lane) {
            behind.push_back(record);
            return None;
        }
        self.behind.insert(lane.clone(), VecDeque::new());
        Some(record)
    }

    /// The record of a lane is done. The next one of it, which may start now.
    pub(crate) fn done(&mut self, lane: &Lane) -> Option<T> {
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

    fn key(name: &'static str) -> Lane {
        Lane::Key(Bytes::from_static(name.as_bytes()))
    }

    #[test]
    fn records_of_one_lane_start_one_after_the_other() {
        let mut lanes = Lanes::default();
        assert_eq!(lanes.arrives(Some(&key("a")), 1), Some(1));
        assert_eq!(lanes.arrives(Some(&key("a")), 2), None);
        assert_eq!(lanes.arrives(Some(&key("a")), 3), None);
        assert_eq!(lanes.done(&key("a")), Some(2));
        assert_eq!(lanes.done(&key("a")), Some(3));
        assert_eq!(lanes.done(&key("a")), None);
        assert_eq!(lanes.arrives(Some(&key("a")), 4), Some(4));
    }

    #[test]
    fn lanes_do_not_wait_for_each_other() {
        let mut lanes = Lanes::default();
        assert_eq!(lanes.arrives(Some(&key("a")), 1), Some(1));
        assert_eq!(lanes.arrives(Some(&key("b")), 2), Some(2));
        assert_eq!(lanes.arrives(Some(&Lane::Partition), 3), Some(3));
        assert_eq!(lanes.arrives(None, 4), Some(4));
        assert_eq!(lanes.arrives(None, 5), Some(5));
    }

    #[test]
    fn in_any_order_of_ends_each_record_starts_once_and_in_its_turn() {
        for _ in 0..50 {
            let mut lanes = Lanes::default();
            let names = ["a", "b", "c"].map(key);
            let mut running: Vec<(Lane, u32)> = Vec::new();
            let mut last: HashMap<Lane, u32> = HashMap::new();
            let mut started = 0;
            for number in 1..=200 {
                let lane = names[fastrand::usize(..3)].clone();
                running.extend(
                    lanes
                        .arrives(Some(&lane), number)
                        .map(|record| (lane, record)),
                );
                while fastrand::bool() && !running.is_empty() {
                    let (lane, record) = running.swap_remove(fastrand::usize(..running.len()));
                    assert!(
                        last.insert(lane.clone(), record)
                            .is_none_or(|last| last < record)
                    );
                    started += 1;
                    running.extend(lanes.done(&lane).map(|next| (lane, next)));
                }
            }
            while let Some((lane, record)) = running.pop() {
                assert!(
                    last.insert(lane.clone(), record)
                        .is_none_or(|last| last < record)
                );
                started += 1;
                running.extend(lanes.done(&lane).map(|next| (lane, next)));
            }
            assert_eq!(started, 200);
        }
    }
}
