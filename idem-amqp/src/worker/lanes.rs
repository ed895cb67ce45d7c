//! Which deliveries of a worker wait for each other: those of one lane start one after the other, as they arrived.
//!
//! `consumer` takes a place for each delivery whose handler says what it is ordered by; `DeliveryProcessor::serve`
//! waits until that place is the first, and leaves it when the delivery is settled. What must stay true: a place that
//! is left, however that happens, lets the next one start, and no other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idem_core::{Key, settlement::Lanes};
use tokio::sync::oneshot;

/// The lanes of a worker, over all its queues and channels: what ran on a channel that has ended may still run.
#[derive(Debug, Default)]
pub(super) struct DeliveryLanes(Mutex<Lanes<Key, oneshot::Sender<()>>>);

/// A delivery's place in its lane, until it is dropped.
#[derive(Debug)]
pub(super) struct LanePlace {
    lanes: Arc<DeliveryLanes>,
    lane: Key,
    /// Hears when it is the first; none if it was from the beginning.
    first: Option<oneshot::Receiver<()>>,
}

impl DeliveryLanes {
    /// The last place of a lane. To be called where deliveries arrive, one after the other.
    pub(super) fn take(self: &Arc<Self>, lane: Key) -> LanePlace {
        let (tell, first) = oneshot::channel();
        let is_first = self.lanes().arrives(Some(&lane), tell).is_some();
        LanePlace {
            lanes: Arc::clone(self),
            lane,
            first: (!is_first).then_some(first),
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes<Key, oneshot::Sender<()>>> {
        // Each step is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LanePlace {
    /// Whether nobody is before it.
    pub(super) fn is_first(&self) -> bool {
        self.first.is_none()
    }

    /// Waits until nobody is before it.
    ///
    /// # Cancel safety
    /// The place stays.
    pub(super) async fn until_first(&mut self) {
        if let Some(first) = &mut self.first {
            // An error is impossible: the lane keeps the sender until it has told.
            let _ = first.await;
            self.first = None;
        }
    }
}

impl Drop for LanePlace {
    fn drop(&mut self) {
        if let Some(first) = &mut self.first {
            first.close();
            // Whoever leaves the first place passes over this one: it cannot be told any more.
            if first.try_recv().is_err() {
                return;
            }
        }
        let mut lanes = self.lanes.lanes();
        while let Some(next) = lanes.done(&self.lane) {
            if next.send(()).is_ok() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn lane(name: &str) -> Key {
        Key::new("customers", name).expect("a short name")
    }

    fn becomes_first(place: &mut LanePlace) -> bool {
        place.until_first().now_or_never().is_some()
    }

    #[test]
    fn places_of_a_lane_become_the_first_one_after_the_other() {
        let lanes = Arc::new(DeliveryLanes::default());
        let [one, mut two, mut three] = [(); 3].map(|()| lanes.take(lane("a")));
        assert!(one.is_first() && lanes.take(lane("b")).is_first());
        assert!(!becomes_first(&mut two));
        drop(one);
        assert!(becomes_first(&mut two) && two.is_first());
        assert!(!becomes_first(&mut three));
        drop(two);
        assert!(becomes_first(&mut three));
        drop(three);
        assert!(lanes.take(lane("a")).is_first());
    }

    #[test]
    fn a_place_that_is_left_while_it_waits_is_passed_over() {
        let lanes = Arc::new(DeliveryLanes::default());
        let [one, two, mut three] = [(); 3].map(|()| lanes.take(lane("a")));
        drop(two);
        assert!(!becomes_first(&mut three));
        drop(one);
        assert!(becomes_first(&mut three));
    }

    #[test]
    fn a_place_that_is_left_when_it_was_told_lets_the_next_one_start() {
        let lanes = Arc::new(DeliveryLanes::default());
        let [one, two, mut three] = [(); 3].map(|()| lanes.take(lane("a")));
        drop(one);
        drop(two);
        assert!(becomes_first(&mut three));
    }

    #[test]
    fn when_the_last_ones_leave_while_they_wait_the_lane_is_free() {
        let lanes = Arc::new(DeliveryLanes::default());
        let [one, two, three] = [(); 3].map(|()| lanes.take(lane("a")));
        drop((two, three));
        assert!(!lanes.take(lane("a")).is_first());
        drop(one);
        assert!(lanes.take(lane("a")).is_first());
    }
}
