//! Who takes SQLite's write lock next in this process.
//!
//! A connection that finds the lock taken sleeps for 1 to 100 ms before it looks again, however soon the lock is free.
//! So `writer` and `atomic` take a place here before a transaction that will write, and give it back with its end. What
//! must stay true:
//!
//! - This is about speed alone: SQLite's lock decides.
//! - A handler that waits for something else before its first write keeps nobody waiting for long.
// docs/decisions/0040

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How long handlers have their place on average at most, for others to wait for it. One that takes longer waits for
/// something else, most likely, and without the lock: then all go side by side.
const SHORT: Duration = Duration::from_millis(1);

/// How long anybody may have the place while others wait for it.
const LONG: Duration = Duration::from_millis(50);

/// How often it is looked whether somebody has the place for too long, while others wait.
const LOOK: Duration = Duration::from_millis(10);

/// How many transactions begin without a place after that, before it is tried again.
const SIDE_BY_SIDE: u32 = 300;

/// Clones are the same queue.
#[derive(Debug, Clone)]
pub(super) struct WriteQueue {
    // In this order: when the thread is woken for the last time, the queue is gone.
    inner: Arc<Inner>,
    watch: Arc<Watch>,
}

#[derive(Debug)]
struct Inner {
    place: Arc<Semaphore>,
    /// Since when somebody has the place.
    taken: Mutex<Option<Instant>>,
    /// How many wait for it.
    waiting: AtomicUsize,
    /// Tells those who wait to begin without it.
    go_on: Notify,
    /// How many transactions are still to begin without a place.
    side_by_side: AtomicU32,
    /// How long handlers have had their place of late, in microseconds.
    average: AtomicU32,
}

/// The thread that looks after those who wait. By the system's clock: the runtime's may be paused, and stands still
/// while a test waits for the store. It ends with the queue.
#[derive(Debug)]
struct Watch(Thread);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.unpark();
    }
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
    /// Starts the thread.
    pub(super) fn new() -> io::Result<Self> {
        let inner = Arc::new(Inner {
            place: Arc::new(Semaphore::new(1)),
            taken: Mutex::default(),
            waiting: AtomicUsize::new(0),
            go_on: Notify::new(),
            side_by_side: AtomicU32::new(0),
            average: AtomicU32::new(0),
        });
        let watched = Arc::downgrade(&inner);
        let thread = thread::Builder::new()
            .name("idem-sqlite-queue".to_owned())
            .spawn(move || watch(&watched))?;
        let watch = Arc::new(Watch(thread.thread().clone()));
        Ok(Self { inner, watch })
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
        let inner = &self.inner;
        let skip = |left: u32| left.checked_sub(1);
        let skipped = &inner.side_by_side;
        if skipped
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, skip)
            .is_ok()
        {
            return None;
        }
        let permit = match Arc::clone(&inner.place).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.wait().await?,
        };
        let since = Instant::now();
        *inner.taken() = Some(since);
        Some(Place {
            queue: self.clone(),
            since,
            is_handlers,
            _permit: permit,
        })
    }

    async fn wait(&self) -> Option<OwnedSemaphorePermit> {
        let inner = &self.inner;
        let _waiting = Waiting::begin(inner, &self.watch);
        tokio::select! {
            permit = Arc::clone(&inner.place).acquire_owned() => {
                Some(permit.expect("the semaphore is never closed"))
            }
            () = inner.go_on.notified() => None,
        }
    }
}

/// Counts one who waits, until it is dropped.
struct Waiting<'a>(&'a Inner);

impl<'a> Waiting<'a> {
    fn begin(inner: &'a Inner, watch: &Watch) -> Self {
        if inner.waiting.fetch_add(1, Ordering::AcqRel) == 0 {
            watch.0.unpark();
        }
        Self(inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Looks after those who wait until the queue is gone.
fn watch(queue: &Weak<Inner>) {
    while let Some(inner) = queue.upgrade() {
        let somebody_waits = inner.waiting.load(Ordering::Acquire) > 0;
        if somebody_waits && inner.is_kept() {
            inner.go_side_by_side();
            inner.go_on.notify_waiters();
        }
        drop(inner);
        if somebody_waits {
            thread::sleep(LOOK);
        } else {
            // Until somebody waits, or the queue is gone.
            thread::park();
        }
    }
}

impl Drop for Place {
    /// A handler that has failed or was dropped counts, too: it has kept the others waiting.
    fn drop(&mut self) {
        let inner = &self.queue.inner;
        *inner.taken() = None;
        if !self.is_handlers {
            return;
        }
        let held = u32::try_from(self.since.elapsed().as_micros()).unwrap_or(u32::MAX);
        let average = &inner.average;
        // Only the holder of the place writes it.
        let now = (average.load(Ordering::Relaxed) / 8 * 7).saturating_add(held / 8);
        average.store(now, Ordering::Relaxed);
        if u128::from(now) > SHORT.as_micros() {
            inner.go_side_by_side();
        }
    }
}

impl Inner {
    fn taken(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody has the place for too long.
    fn is_kept(&self) -> bool {
        self.taken().is_some_and(|since| since.elapsed() >= LONG)
    }

    fn go_side_by_side(&self) {
        self.average.store(0, Ordering::Relaxed);
        self.side_by_side.store(SIDE_BY_SIDE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> WriteQueue {
        WriteQueue::new().unwrap()
    }

    #[tokio::test]
    async fn one_after_the_other_has_the_place() {
        let queue = queue();
        let place = queue.enter().await.unwrap();
        let mut next = std::pin::pin!(queue.enter());
        assert!(futures_util::poll!(next.as_mut()).is_pending());
        drop(place);
        assert!(next.await.is_some());
    }

    /// Also on a paused clock, which stands still as long as a test waits for the store.
    #[tokio::test(start_paused = true)]
    async fn who_keeps_the_place_is_not_waited_for_and_others_go_side_by_side_for_a_while() {
        let queue = queue();
        let slow = queue.enter().await.unwrap();
        let began = tokio::time::Instant::now();
        for _ in 0..=SIDE_BY_SIDE {
            assert!(queue.enter().await.is_none());
        }
        assert!(began.elapsed().is_zero());
        drop(slow);
        assert!(queue.enter().await.is_some());
    }

    #[tokio::test]
    async fn handlers_that_take_long_on_average_go_side_by_side() {
        let queue = queue();
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
        let queue = queue();
        for _ in 0..100 {
            let mut place = queue.enter().await.unwrap();
            place.since = Instant::now().checked_sub(2 * SHORT).unwrap();
        }
    }

    #[tokio::test]
    async fn the_thread_ends_with_the_queue() {
        let queue = queue();
        let place = queue.enter().await.unwrap();
        let gone = Arc::downgrade(&queue.inner);
        drop(queue);
        drop(place);
        let began = Instant::now();
        // The thread may have looked at it right now.
        while gone.strong_count() > 0 {
            assert!(began.elapsed() < Duration::from_secs(20));
            tokio::task::yield_now().await;
        }
    }
}
