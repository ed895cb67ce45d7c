//! Who takes SQLite's write lock next in this process.
//!
//! A connection that finds the lock taken sleeps for 1 to 100 ms before it looks again, however soon the lock is free.
//! So `writer` and `atomic` take a place here before a transaction that will write, and give it back with its end.
//! What must stay true: this is about speed alone, SQLite's lock decides; a handler that waits for something else
//! before its first write keeps nobody waiting.
// docs/decisions/0040

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a transaction has its place on average at most, for others to wait for it. One that takes longer waits for
/// something else, most likely, and without the lock: then all go side by side.
const SHORT: Duration = Duration::from_millis(1);

/// How long anybody waits for a place.
const WAIT: Duration = Duration::from_millis(50);

/// How many transactions begin without a place after that, before it is tried again.
const SIDE_BY_SIDE: u32 = 300;

/// Clones are the same queue.
#[derive(Debug, Clone)]
pub(super) struct WriteQueue(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    place: Arc<Semaphore>,
    /// How many transactions are still to begin without a place.
    side_by_side: AtomicU32,
    /// How long transactions of handlers have had their place of late, in microseconds.
    average: AtomicU32,
}

/// The place. Dropping it lets the next one in.
#[derive(Debug)]
pub(super) struct Place {
    queue: WriteQueue,
    since: Instant,
    /// Whether a handler has it: then its time counts.
    is_handlers: bool,
    _permit: OwnedSemaphorePermit,
}

impl WriteQueue {
    pub(super) fn new() -> Self {
        Self(Arc::new(Inner {
            place: Arc::new(Semaphore::new(1)),
            side_by_side: AtomicU32::new(0),
            average: AtomicU32::new(0),
        }))
    }

    /// Waits for the place, first come, first served, but not for long. `None` is to begin without one.
    ///
    /// # Cancel safety
    /// Dropped while it waits, it takes none.
    pub(super) async fn enter(&self) -> Option<Place> {
        self.enter_as(false).await
    }

    /// The same for a handler, whose transaction takes as long as the handler does.
    pub(super) async fn enter_with_handler(&self) -> Option<Place> {
        self.enter_as(true).await
    }

    async fn enter_as(&self, is_handlers: bool) -> Option<Place> {
        let Inner {
            place,
            side_by_side,
            ..
        } = &*self.0;
        let skip = |left: u32| left.checked_sub(1);
        if side_by_side
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, skip)
            .is_ok()
        {
            return None;
        }
        let permit = tokio::time::timeout(WAIT, Arc::clone(place).acquire_owned()).await;
        let Ok(permit) = permit else {
            self.go_side_by_side();
            return None;
        };
        Some(Place {
            queue: self.clone(),
            since: Instant::now(),
            is_handlers,
            _permit: permit.expect("the semaphore is never closed"),
        })
    }

    fn go_side_by_side(&self) {
        self.0.average.store(0, Ordering::Relaxed);
        self.0.side_by_side.store(SIDE_BY_SIDE, Ordering::Relaxed);
    }
}

impl Drop for Place {
    /// Also after a handler that has failed or was dropped: it has kept the others waiting.
    fn drop(&mut self) {
        if !self.is_handlers {
            return;
        }
        let held = u32::try_from(self.since.elapsed().as_micros()).unwrap_or(u32::MAX);
        let average = &self.queue.0.average;
        // Only the holder of the place writes it.
        let now = (average.load(Ordering::Relaxed) / 8 * 7).saturating_add(held / 8);
        average.store(now, Ordering::Relaxed);
        if u128::from(now) > SHORT.as_micros() {
            self.queue.go_side_by_side();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_after_the_other_has_the_place() {
        let queue = WriteQueue::new();
        let place = queue.enter().await.unwrap();
        let mut next = std::pin::pin!(queue.enter());
        assert!(futures_util::poll!(next.as_mut()).is_pending());
        drop(place);
        assert!(next.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn who_keeps_the_place_is_not_waited_for_and_others_go_side_by_side_for_a_while() {
        let queue = WriteQueue::new();
        let slow = queue.enter().await.unwrap();
        for _ in 0..=SIDE_BY_SIDE {
            assert!(queue.enter().await.is_none());
        }
        drop(slow);
        assert!(queue.enter().await.is_some());
    }

    #[tokio::test]
    async fn handlers_that_take_long_on_average_go_side_by_side() {
        let queue = WriteQueue::new();
        let mut served = 0;
        while let Some(mut place) = queue.enter_with_handler().await {
            place.since = Instant::now().checked_sub(2 * SHORT).unwrap();
            served += 1;
        }
        // One or two slow ones are an accident.
        assert!((3..20).contains(&served), "{served}");
    }

    #[tokio::test]
    async fn what_is_no_handlers_does_not_count() {
        let queue = WriteQueue::new();
        for _ in 0..100 {
            let mut place = queue.enter().await.unwrap();
            place.since = Instant::now().checked_sub(2 * SHORT).unwrap();
        }
    }
}
