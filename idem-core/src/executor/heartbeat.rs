//! Runs a handler's future while a heartbeat keeps its lease.

use std::{
    future::poll_fn,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{FutureExt as _, task::AtomicWaker};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};

use super::guarded::panic_message;
use crate::{Policy, StoreError, Write};

/// How a handler's future ended.
pub(super) enum Ran<T> {
    Returned(T),
    Panicked(String),
    LeaseLost,
}

/// What work does whose lease has ended, as far as is known, while the store does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Untold {
    /// It rests: nothing would stop the effects of a worker that was taken over.
    Rest,
    /// It goes on after an unanswered heartbeat. Atomic work, because its writes commit only under
    /// the current lease, and it may be its own transaction that keeps the store from answering
    /// until it ends; work that fails open, because its effects may happen twice.
    GoOn,
}

/// Polls `work` until it ends or another worker has taken its lease over; then it is dropped.
///
/// The heart beats on a task of its own, so that a handler that blocks its thread keeps its lease.
/// `claimed` is when the claim was asked for: the lease cannot end earlier than `lease` after it.
/// When it has ended, as far as is known here (the process was paused, or the store is away), the
/// work is not polled again before the store has confirmed that the lease is still its own, or,
/// with [`Untold::GoOn`], has left a heartbeat unanswered.
pub(super) async fn run_under_heartbeat<T, F, Fut>(
    work: impl Future<Output = T>,
    extend: F,
    claimed: Instant,
    lease: Duration,
    untold: Untold,
) -> Ran<T>
where
    F: Fn() -> Fut + Send + 'static,
    Fut: Future<Output = Result<Write, StoreError>> + Send + 'static,
{
    // A request made by hand may ask for any lease.
    let lease = lease.clamp(Policy::MIN_LEASE, Policy::MAX_RETENTION);
    let held = Arc::new(Held::until(claimed + lease));
    let mut heart = Heart(tokio::spawn(beat(
        extend,
        claimed,
        lease,
        Arc::clone(&held),
        untold,
    )));
    let mut work = pin!(AssertUnwindSafe(work).catch_unwind());
    poll_fn(|cx| {
        if heart.0.poll_unpin(cx).is_ready() {
            return Poll::Ready(Ran::LeaseLost);
        }
        if held.is_over(cx) {
            return Poll::Pending;
        }
        work.as_mut().poll(cx).map(|ended| match ended {
            Ok(returned) => Ran::Returned(returned),
            Err(panic) => Ran::Panicked(panic_message(&*panic)),
        })
    })
    .await
}

/// Stops beating when the work has ended or was dropped.
struct Heart(JoinHandle<()>);

impl Drop for Heart {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Extends the lease three times in its length; returns when another worker has taken it over.
///
/// While the store is away nobody can take it over, so that is asked until the store tells.
async fn beat<F, Fut>(extend: F, claimed: Instant, lease: Duration, held: Arc<Held>, untold: Untold)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<Write, StoreError>>,
{
    let interval = lease / 3;
    let mut next = claimed + interval;
    loop {
        sleep_until(next).await;
        let asked = Instant::now();
        // A store that is frozen, or whose answer was lost, is asked again.
        match timeout(interval, extend()).await {
            Ok(Ok(Write::Applied)) => {
                held.set(asked + lease);
                next = asked + interval;
            }
            Ok(Ok(Write::Fenced)) => return,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the heartbeat failed, trying again");
                next = asked + interval / 4;
            }
            Err(_) => {
                tracing::warn!("the store did not answer the heartbeat, trying again");
                next = asked + interval;
            }
        }
        if untold == Untold::GoOn {
            held.set(asked + lease);
        }
    }
}

/// Until when the lease is known to hold, by this process's own clock.
struct Held {
    until: Mutex<Instant>,
    waiting: AtomicWaker,
}

impl Held {
    fn until(until: Instant) -> Self {
        Self {
            until: Mutex::new(until),
            waiting: AtomicWaker::new(),
        }
    }

    fn get(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, until: Instant) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        self.waiting.wake();
    }

    /// Whether it has ended as far as is known; wakes the task when it is extended.
    fn is_over(&self, cx: &Context<'_>) -> bool {
        if Instant::now() < self.get() {
            return false;
        }
        self.waiting.register(cx.waker());
        Instant::now() >= self.get()
    }
}
