//! Runs a handler's future while a heartbeat keeps its lease.

use std::{
    any::Any,
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
    time::{Instant, sleep_until, timeout_at},
};

use crate::{StoreError, Write};

/// How a handler's future ended.
pub(super) enum Ran<T> {
    Returned(T),
    Panicked(String),
    LeaseLost,
}

/// Polls `work` until it ends or the lease is lost; then it is dropped.
///
/// The heart beats on a task of its own, so that a handler that blocks its thread keeps its lease.
/// `claimed` is when the claim was asked for: the lease cannot end earlier than `lease` after it.
/// A process that was paused for longer than that does not poll the work again before the store
/// has confirmed that the lease is still its own.
pub(super) async fn run_under_heartbeat<T, F, Fut>(
    work: impl Future<Output = T>,
    extend: F,
    claimed: Instant,
    lease: Duration,
) -> Ran<T>
where
    F: Fn() -> Fut + Send + 'static,
    Fut: Future<Output = Result<Write, StoreError>> + Send + 'static,
{
    let held = Arc::new(Held::until(claimed + lease));
    let mut heart = Heart(tokio::spawn(beat(
        extend,
        claimed,
        lease,
        Arc::clone(&held),
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

/// Extends the lease three times in its length; returns when it is lost.
async fn beat<F, Fut>(extend: F, claimed: Instant, lease: Duration, held: Arc<Held>)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<Write, StoreError>>,
{
    let interval = lease / 3;
    let mut next = claimed + interval;
    loop {
        sleep_until(next).await;
        let asked = Instant::now();
        // A frozen store must not keep a lost lease looking alive; a paused worker that is late
        // still gets one answer.
        let patience = held.get().max(asked + interval);
        match timeout_at(patience, extend()).await {
            Ok(Ok(Write::Applied)) => {
                held.set(asked + lease);
                next = asked + interval;
            }
            Ok(Err(error)) if Instant::now() < held.get() => {
                tracing::warn!(%error, "the heartbeat failed, trying again");
                next = (asked + interval / 4).min(held.get());
            }
            Ok(Ok(Write::Fenced) | Err(_)) | Err(_) => return,
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

pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
        .to_owned()
}
