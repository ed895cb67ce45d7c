//! Runs a handler's future while a heartbeat keeps its lease.

use std::{
    future::poll_fn,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, SystemTime},
};

use tokio::{
    task::yield_now,
    time::{Instant, sleep_until, timeout},
};

use super::guarded::panic_message;
use crate::{
    futures::BoxFuture,
    handler::Policy,
    store::{Lease, Store, StoreError, TransactionalStore, Write},
};

mod scheduler;

pub(super) use scheduler::HeartbeatScheduler;
use scheduler::{Beat, Scheduled};

/// How a future ended that was run under a lease.
pub(super) enum Ran<T> {
    Returned(T),
    Panicked(String),
    /// It was dropped, because it took longer than it may.
    Overdue(Overdue),
    /// It was dropped, because another worker has the key.
    LeaseLost,
}

/// A handler kept its transaction open for this long, and was dropped.
#[derive(Debug, thiserror::Error)]
#[error("it was still open after {0:?}, which is the store's limit")]
pub(super) struct Overdue(Duration);

/// A moment on two clocks: one that nobody sets, and which stands still while the machine sleeps, and
/// one that goes on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    running: Instant,
    wall: SystemTime,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self {
            running: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    fn after(self, wait: Duration) -> Self {
        Self {
            running: self.running + wait,
            wall: self.wall + wait,
        }
    }

    /// Whether it has passed, by either clock: one that was set ahead costs a heartbeat's wait.
    fn has_passed(self, now: Self) -> bool {
        self.running <= now.running || self.wall <= now.wall
    }
}

/// What work does whose lease has ended, as far as is known, while the store does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhileUnknown {
    /// It rests: nothing would stop the effects of a worker that was taken over.
    Rest,
    /// It goes on after an unanswered heartbeat. Atomic work, because its writes commit only under
    /// the current lease, and it may be its own transaction that keeps the store from answering
    /// until it ends; work that fails open, because its effects may happen twice.
    GoOn,
    /// It ends by itself, whatever becomes of its lease: work that is only observed.
    NoMatter,
}

/// A lease that a heartbeat keeps until this is dropped.
///
/// The heartbeat runs on a task of its own, so that a handler that blocks its thread keeps its lease.
pub(super) struct KeptLease {
    /// `None` for work that has no lease.
    kept: Option<(Arc<dyn Beat>, Scheduled)>,
    while_unknown: WhileUnknown,
}

impl KeptLease {
    /// For work that has no lease.
    pub(super) fn none() -> Self {
        Self {
            kept: None,
            while_unknown: WhileUnknown::NoMatter,
        }
    }

    /// Keeps this lease of the store's, where nothing else holds its key.
    pub(super) fn new<S: Store>(
        heartbeats: &HeartbeatScheduler,
        store: &Arc<S>,
        lease: &Lease,
        by: Duration,
        claimed: Moment,
        while_unknown: WhileUnknown,
    ) -> Self {
        let (store, lease) = (Arc::clone(store), lease.clone());
        let extend = move || {
            let (store, lease) = (Arc::clone(&store), lease.clone());
            async move { store.extend(&lease, by).await }
        };
        Self::by(heartbeats, extend, claimed, by, while_unknown)
    }

    /// Keeps it beside the transaction that holds its key.
    pub(super) fn beside_transaction<S, Tx>(
        heartbeats: &HeartbeatScheduler,
        store: &Arc<S>,
        lease: &Lease,
        by: Duration,
        claimed: Moment,
    ) -> Self
    where
        S: TransactionalStore<Tx>,
    {
        let (store, lease) = (Arc::clone(store), lease.clone());
        let extend = move || {
            let (store, lease) = (Arc::clone(&store), lease.clone());
            async move { store.extend_open(&lease, by).await }
        };
        Self::by(heartbeats, extend, claimed, by, WhileUnknown::GoOn)
    }

    /// `claimed` is when the claim was asked for: the lease cannot end earlier than `lease` after it.
    fn by<F, Fut>(
        heartbeats: &HeartbeatScheduler,
        extend: F,
        claimed: Moment,
        lease: Duration,
        while_unknown: WhileUnknown,
    ) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Write, StoreError>> + Send + 'static,
    {
        // A request made by hand may ask for any lease.
        let lease = lease.clamp(Policy::MIN_LEASE, Policy::MAX_RETENTION);
        let first = claimed.running + lease / 3;
        let heartbeat: Arc<dyn Beat> = Arc::new(Heartbeat {
            extend,
            first,
            lease,
            while_unknown,
            held: Held::until(claimed.after(lease)),
        });
        let scheduled = heartbeats.keep(first, Arc::clone(&heartbeat));
        Self {
            kept: Some((heartbeat, scheduled)),
            while_unknown,
        }
    }

    /// Polls `work` until it ends or another worker has taken its lease over; then it is dropped, unless
    /// that is of [no matter](WhileUnknown::NoMatter).
    ///
    /// When the lease has ended, as far as is known here (the process was paused, or the store is away), the
    /// work is not polled again before the store has confirmed that the lease is still its own, or,
    /// with [`WhileUnknown::GoOn`], has left a heartbeat unanswered.
    pub(super) async fn run<T>(&mut self, work: impl Future<Output = T>) -> Ran<T> {
        if let Some((_, scheduled)) = &mut self.kept
            && mem::take(&mut scheduled.is_next)
        {
            // What a thread has woken, no other thread runs; and the work may block this one.
            yield_now().await;
        }
        let mut work = pin!(work);
        poll_fn(|cx| {
            if let Some((heartbeat, _)) = &self.kept
                && self.while_unknown != WhileUnknown::NoMatter
            {
                match heartbeat.held().look(cx) {
                    LeaseState::Lost => return Poll::Ready(Ran::LeaseLost),
                    LeaseState::Over => return Poll::Pending,
                    LeaseState::Held => {}
                }
            }
            // Work that has panicked is not polled again.
            match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
                Ok(polled) => polled.map(Ran::Returned),
                Err(panic) => Poll::Ready(Ran::Panicked(panic_message(&*panic))),
            }
        })
        .await
    }

    /// [`run`](Self::run), for at most so long.
    pub(super) async fn run_within<T>(
        &mut self,
        limit: Option<Duration>,
        work: impl Future<Output = T>,
    ) -> Ran<T> {
        let Some(limit) = limit else {
            return self.run(work).await;
        };
        match self.run(timeout(limit, work)).await {
            Ran::Returned(Ok(returned)) => Ran::Returned(returned),
            Ran::Returned(Err(_)) => Ran::Overdue(Overdue(limit)),
            Ran::Panicked(message) => Ran::Panicked(message),
            Ran::Overdue(overdue) => Ran::Overdue(overdue),
            Ran::LeaseLost => Ran::LeaseLost,
        }
    }
}

/// What keeps one lease.
struct Heartbeat<F> {
    extend: F,
    /// When it beats first.
    first: Instant,
    lease: Duration,
    while_unknown: WhileUnknown,
    held: Held,
}

impl<F, Fut> Beat for Heartbeat<F>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Write, StoreError>> + Send + 'static,
{
    fn beat(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let _stops = Stops(&self.held);
            self.beat_until_lost().await;
        })
    }

    fn held(&self) -> &Held {
        &self.held
    }
}

impl<F, Fut> Heartbeat<F>
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<Write, StoreError>>,
{
    /// Extends the lease three times in its length; returns when another worker has taken it over.
    ///
    /// While the store is away nobody can take it over, so that is asked until the store tells.
    async fn beat_until_lost(&self) {
        let interval = self.lease / 3;
        let mut next = self.first;
        loop {
            sleep_until(next).await;
            let asked = Moment::now();
            // A store that is frozen, or whose answer was lost, is asked again.
            match timeout(interval, (self.extend)()).await {
                Ok(Ok(Write::Applied)) => {
                    self.held.set(asked.after(self.lease));
                    next = asked.running + interval;
                }
                Ok(Ok(Write::Fenced)) => return,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the heartbeat failed, trying again");
                    next = asked.running + interval / 4;
                }
                Err(_) => {
                    tracing::warn!("the store did not answer the heartbeat, trying again");
                    next = asked.running + interval;
                }
            }
            if self.while_unknown == WhileUnknown::GoOn {
                self.held.set(asked.after(self.lease));
            }
        }
    }
}

/// However a heartbeat stops, also by a panic, its lease is not kept any more.
struct Stops<'a>(&'a Held);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.lose();
    }
}

/// Until when the lease is known to hold, and who waits for news of that.
pub(super) struct Held(Mutex<Known>);

struct Known {
    /// By this process's own clocks; `None` if it is lost.
    until: Option<Moment>,
    waiting: Option<Waker>,
}

/// How the lease stands, as far as is known.
enum LeaseState {
    Held,
    Over,
    Lost,
}

impl Held {
    fn until(until: Moment) -> Self {
        Self(Mutex::new(Known {
            until: Some(until),
            waiting: None,
        }))
    }

    fn set(&self, until: Moment) {
        self.put(Some(until));
    }

    fn lose(&self) {
        self.put(None);
    }

    fn put(&self, until: Option<Moment>) {
        let mut known = self.lock();
        known.until = until;
        let waiting = known.waiting.take();
        drop(known);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    /// How it stands; wakes the task when that changes.
    fn look(&self, cx: &Context<'_>) -> LeaseState {
        let mut known = self.lock();
        match &mut known.waiting {
            Some(waiting) => waiting.clone_from(cx.waker()),
            waiting => *waiting = Some(cx.waker().clone()),
        }
        let until = known.until;
        drop(known);
        match until {
            None => LeaseState::Lost,
            Some(until) if until.has_passed(Moment::now()) => LeaseState::Over,
            Some(_) => LeaseState::Held,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_slept_past_the_lease_does_not_go_on() {
        let lease = Duration::from_secs(30);
        let claimed = Moment::now();
        let until = claimed.after(lease);
        assert!(!until.has_passed(claimed.after(lease / 2)));
        let slept = claimed.wall + lease * 2;
        assert!(until.has_passed(Moment {
            wall: slept,
            ..claimed
        }));
        let set_back = claimed.wall;
        assert!(until.has_passed(Moment {
            wall: set_back,
            ..claimed.after(lease)
        }));
    }
}
