//! Runs a handler's future while a heartbeat keeps its lease.
//!
//! Each mode makes a [`KeptLease`] of its claim and runs its handler, or a wait for a transaction, under it. What must
//! stay true:
//!
//! - Work is polled only while its lease is known to hold, unless its [`WhileUnknown`] says otherwise.
//! - Work whose key another worker has taken over is dropped.
//! - A handler that blocks its thread keeps its lease.
//! - A lease as long as policies allow is never thought to end later than the store ends it.
// docs/decisions/0007

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
    time::{Instant, error::Elapsed, sleep, sleep_until, timeout},
};

use super::guarded::panic_message;
use crate::{
    executor::Cause,
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
    /// It panicked, with this message. The panic was caught, so that the claim can be ended.
    Panicked(String),
    /// It was dropped, because it took longer than it may.
    Overdue(Limit),
    /// It was dropped, because another worker has the key.
    LeaseLost,
}

impl<T> Ran<Result<T, Elapsed>> {
    /// How work ended that had this limit.
    fn within(self, limit: Limit) -> Ran<T> {
        match self {
            Self::Returned(Ok(returned)) => Ran::Returned(returned),
            Self::Returned(Err(_)) => Ran::Overdue(limit),
            Self::Panicked(message) => Ran::Panicked(message),
            Self::Overdue(limit) => Ran::Overdue(limit),
            Self::LeaseLost => Ran::LeaseLost,
        }
    }
}

/// How long a handler may run, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// The handler's [policy](Policy::timeout).
    Policy(Duration),
    /// The store, of which it keeps a transaction open.
    Store(Duration),
}

impl Limit {
    /// The shorter of the two; `None` is for ever.
    pub(super) fn shorter(policy: Option<Duration>, store: Option<Duration>) -> Option<Self> {
        match (policy, store) {
            (Some(policy), Some(store)) if store < policy => Some(Self::Store(store)),
            (Some(policy), _) => Some(Self::Policy(policy)),
            (None, store) => store.map(Self::Store),
        }
    }

    fn duration(self) -> Duration {
        let (Self::Policy(limit) | Self::Store(limit)) = self;
        limit
    }
}

/// Why the attempt has failed that was dropped for it.
impl<E> From<Limit> for Cause<E> {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Policy(timeout) => Self::TimedOut(timeout),
            Limit::Store(limit) => Self::Refused(format!(
                "it was still open after {limit:?}, which is the store's limit"
            )),
        }
    }
}

/// A moment on two clocks. The store's clock goes on while this machine sleeps, so one of them has to as well.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Nobody sets this clock, and it may stand still while the machine sleeps.
    running: Instant,
    /// This clock goes on while the machine sleeps, and somebody may set it.
    wall: SystemTime,
}

impl Moment {
    /// This moment.
    pub(super) fn now() -> Self {
        Self {
            running: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// The moment that is so much later.
    fn after(self, wait: Duration) -> Self {
        Self {
            running: self.running + wait,
            wall: self.wall + wait,
        }
    }

    /// Whether it has passed by either clock. If the wall clock was set ahead, the work rests until the next
    /// heartbeat, and no worse; if it was set back, the other clock tells.
    fn has_passed(self, now: Self) -> bool {
        self.running <= now.running || self.wall <= now.wall
    }
}

/// What becomes of work whose lease may have ended, while the store does not answer its heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhileUnknown {
    /// It is not polled until the store has answered. For leased work: another worker may have the key by now, and
    /// nothing would stop the effects of this one.
    Rest,
    /// It is polled again after a heartbeat that was not answered. For atomic work, because its writes commit
    /// only under the current lease, and its own transaction may be what keeps the store from answering until
    /// it ends. Also for work that fails open, because its effects may happen twice.
    GoOn,
    /// It is polled to its end, even if another worker has taken its lease over. For work that is only observed.
    NoMatter,
}

/// A lease that a heartbeat keeps until this is dropped. The drop tells the store nothing: whoever drops it
/// completes or releases the key, or leaves the lease to run out.
///
/// From a third of the lease on, the heartbeat runs on a task of its own, so that a handler that blocks its thread
/// keeps its lease.
pub(super) struct KeptLease {
    /// `None` for work that has no lease.
    kept: Option<(Arc<dyn Beat>, Scheduled)>,
    while_unknown: WhileUnknown,
    /// How long the lease is.
    lease: Duration,
}

impl KeptLease {
    /// Keeps no lease: for work that has none.
    pub(super) fn none() -> Self {
        Self {
            kept: None,
            while_unknown: WhileUnknown::NoMatter,
            lease: Duration::ZERO,
        }
    }

    /// Keeps a lease of leased work, `by` so much with each heartbeat. `claimed` is when the claim was sent.
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
        Self::extended_by(heartbeats, extend, claimed, by, while_unknown)
    }

    /// Keeps the claim of atomic work, whose transaction is open or is about to be. The store may need another
    /// call for that, because the handler uses the transaction's connection.
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
        Self::extended_by(heartbeats, extend, claimed, by, WhileUnknown::GoOn)
    }

    /// Keeps a lease by this call. `claimed` is when the claim was sent: the store started the lease later than
    /// that, so it ends no earlier than `lease` after it.
    fn extended_by<F, Fut>(
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
        // A request made by hand may ask for a lease that is more than a clock can add. One that is shorter than
        // policies allow was refused before its claim.
        let lease = lease.min(Policy::MAX_RETENTION);
        // A third: two more tries are left in the lease if this one fails.
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
            lease,
        }
    }

    /// Polls `work` until it ends or another worker has taken its lease over; then it is dropped, unless
    /// that is of [no matter](WhileUnknown::NoMatter).
    ///
    /// When the lease may have ended (the process was paused, or the store is away), the work is not polled
    /// again before the store has confirmed that the lease is still its own, or, with [`WhileUnknown::GoOn`],
    /// has left a heartbeat unanswered.
    ///
    /// Dropped half way, it drops the work. The heartbeat goes on until the [`KeptLease`] is dropped, too.
    pub(super) async fn run<T>(&mut self, work: impl Future<Output = T>) -> Ran<T> {
        run_under(&mut [self], work).await
    }

    /// Whether another worker has taken the lease over, as far as is known.
    pub(super) fn is_lost(&self) -> bool {
        let kept = self.kept.as_ref();
        kept.is_some_and(|(heartbeat, _)| heartbeat.held().lock().until.is_none())
    }

    /// Whether no other worker has the key, as far as is known now.
    pub(super) fn holds(&self) -> bool {
        match &self.kept {
            Some((heartbeat, _)) => matches!(heartbeat.held().state(), LeaseState::Held),
            None => true,
        }
    }

    /// How the lease stands for work that is about to be polled; from now on the task of this context is woken when
    /// that changes.
    fn look(&self, cx: &Context<'_>) -> LeaseState {
        match &self.kept {
            Some((heartbeat, _)) if self.while_unknown != WhileUnknown::NoMatter => {
                heartbeat.held().look(cx)
            }
            _ => LeaseState::Held,
        }
    }

    /// [`run`](Self::run) for at most so long; then the work is dropped, and has ended as [`Ran::Overdue`]. No
    /// limit is for ever.
    pub(super) async fn run_within<T>(
        &mut self,
        limit: Option<Limit>,
        work: impl Future<Output = T>,
    ) -> Ran<T> {
        let Some(limit) = limit else {
            return self.run(work).await;
        };
        self.run(timeout(limit.duration(), work))
            .await
            .within(limit)
    }
}

/// [`KeptLease::run_within`] under several leases at once: when one of them is lost, the work is dropped, and has ended as
/// [`Ran::LeaseLost`].
///
/// So it is when one of them may have ended, and the store confirms others but not this one, for half a lease: the
/// others must not wait for as long as the store does not answer for this one.
pub(super) async fn run_all_within<T>(
    leases: &mut [&mut KeptLease],
    limit: Option<Limit>,
    work: impl Future<Output = T>,
) -> Ran<T> {
    let Some(limit) = limit else {
        return run_under(leases, work).await;
    };
    let ran = run_under(leases, timeout(limit.duration(), work)).await;
    ran.within(limit)
}

/// See [`KeptLease::run`]. What is said there of its lease is meant of each of these.
async fn run_under<T>(leases: &mut [&mut KeptLease], work: impl Future<Output = T>) -> Ran<T> {
    let kept = leases.iter_mut().filter_map(|it| it.kept.as_mut());
    // Each of them: `any` would leave marks behind.
    let is_next = kept.fold(false, |is_next, (_, scheduled)| {
        mem::take(&mut scheduled.is_next) || is_next
    });
    if is_next {
        // Before the work may block this thread, the task that waits for the heartbeats has to run once.
        // This thread has woken it or started it, and tokio may keep the task that a thread woke last for
        // that thread: no other one would run it, and the lease would run out.
        yield_now().await;
    }
    let mut work = pin!(work);
    // How long the work rests for one lease while others hold.
    let patience = leases.iter().map(|it| it.lease).max().unwrap_or_default() / 2;
    let mut rest = None;
    poll_fn(|cx| {
        let (mut may_be_over, mut holds) = (false, false);
        // Looked at before each poll: after a pause of the process, the work must not have an effect before it is
        // known that no other worker has the key.
        for lease in &*leases {
            match lease.look(cx) {
                LeaseState::Lost => return Poll::Ready(Ran::LeaseLost),
                // The heartbeat wakes this task as soon as it knows more.
                LeaseState::Over => may_be_over = true,
                LeaseState::Held => holds = true,
            }
        }
        if may_be_over && holds {
            let rest = rest.get_or_insert_with(|| Box::pin(sleep(patience)));
            return rest.as_mut().poll(cx).map(|()| Ran::LeaseLost);
        }
        rest = None;
        if may_be_over {
            // The store may be away, and then nobody is helped by an end of the work.
            return Poll::Pending;
        }
        // Unwind-safe: this is ready after a panic, so work that has panicked is not polled again.
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Ran::Returned),
            Err(panic) => Poll::Ready(Ran::Panicked(panic_message(&*panic))),
        }
    })
    .await
}

/// The heartbeat of one lease.
struct Heartbeat<F> {
    /// Extends the lease once.
    extend: F,
    /// When it beats first.
    first: Instant,
    /// How long the lease is after each beat.
    lease: Duration,
    while_unknown: WhileUnknown,
    /// What the work looks at.
    held: Held,
}

impl<F, Fut> Beat for Heartbeat<F>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Write, StoreError>> + Send + 'static,
{
    fn beat(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // Made before the first beat: whatever ends this task, the work must not go on under a lease that nobody
            // extends.
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
    /// Extends the lease three times in its length; returns when the store says that it is not the current one
    /// any more.
    ///
    /// While the store does not answer, it is asked again and again: a lease that has run out can still be
    /// extended if nobody has taken it over, and nobody can while the store is away.
    async fn beat_until_lost(&self) {
        // The time between two beats, and how long the store has for one.
        let interval = self.lease / 3;
        let mut next = self.first;
        loop {
            sleep_until(next).await;
            // Taken before the call: the store extends the lease from a moment after this one, so it holds at
            // least as long as is noted here.
            let asked = Moment::now();
            // A store that is frozen, or whose answer was lost, is asked again before the lease has run out.
            match timeout(interval, (self.extend)()).await {
                Ok(Ok(Write::Applied)) => {
                    self.held.set(asked.after(self.lease));
                    next = asked.running + interval;
                }
                // Another worker has the key, or it has been ended. `Stops` tells the work.
                Ok(Ok(Write::Fenced)) => return,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the heartbeat failed, trying again");
                    // Sooner than the next beat: after an error at the first one there are several tries left in the
                    // lease.
                    next = asked.running + interval / 4;
                }
                Err(_) => {
                    tracing::warn!("the store did not answer the heartbeat, trying again");
                    next = asked.running + interval;
                }
            }
            // An error or no answer: this work goes on all the same.
            if self.while_unknown == WhileUnknown::GoOn {
                self.held.set(asked.after(self.lease));
            }
        }
    }
}

/// Marks the lease as lost when its heartbeat stops, however that is: it was taken over, the store's code has
/// panicked, or the task was ended.
struct Stops<'a>(&'a Held);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.lose();
    }
}

/// What is known of a lease: the heartbeat writes it, and the work looks at it before each poll.
pub(super) struct Held(Mutex<Known>);

struct Known {
    /// Until when the work may be polled, by this process's own clocks; `None` if the lease is lost. That is as
    /// long as the lease holds at least, and longer only with [`WhileUnknown::GoOn`].
    until: Option<Moment>,
    /// The task that runs the work, once it has looked.
    waiting: Option<Waker>,
}

/// How the lease stands, as far as is known. It goes from held to over when its time has passed without a heartbeat
/// that was answered, back by one that is, and from either to lost, for good.
enum LeaseState {
    /// No other worker has the key, or it does not matter for now.
    Held,
    /// It may have run out, and another worker may have the key.
    Over,
    /// It is not the current one any more, or nobody keeps it.
    Lost,
}

impl Known {
    fn state(&self) -> LeaseState {
        match self.until {
            None => LeaseState::Lost,
            Some(until) if until.has_passed(Moment::now()) => LeaseState::Over,
            Some(_) => LeaseState::Held,
        }
    }
}

impl Held {
    /// A lease that holds until then.
    fn until(until: Moment) -> Self {
        Self(Mutex::new(Known {
            until: Some(until),
            waiting: None,
        }))
    }

    /// The lease holds until then now.
    fn set(&self, until: Moment) {
        self.put(Some(until));
    }

    /// The lease is lost for good: its heartbeat has ended.
    fn lose(&self) {
        self.put(None);
    }

    /// Writes what is known now, and wakes the task that runs the work.
    fn put(&self, until: Option<Moment>) {
        let mut known = self.lock();
        known.until = until;
        let waiting = known.waiting.take();
        // Woken without the lock, which the woken task takes for its next look.
        drop(known);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    /// How it stands; from now on the task of this context is woken when that changes.
    fn look(&self, cx: &Context<'_>) -> LeaseState {
        // The waker is put in under the same lock under which the state is read: no change between the two is missed.
        let mut known = self.lock();
        match &mut known.waiting {
            Some(waiting) => waiting.clone_from(cx.waker()),
            waiting => *waiting = Some(cx.waker().clone()),
        }
        known.state()
    }

    /// How it stands.
    fn state(&self) -> LeaseState {
        self.lock().state()
    }

    /// Held for one look or one write, never over an await; what is written under it is never half done.
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
