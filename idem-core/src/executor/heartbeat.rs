//! Runs a handler's future while a heartbeat keeps its lease.

use std::{
    future::poll_fn,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use futures_util::{FutureExt as _, future::BoxFuture, task::AtomicWaker};
use tokio::{
    task::yield_now,
    time::{Instant, sleep_until, timeout},
};

use super::guarded::panic_message;
use crate::{
    handler::Policy,
    store::{StoreError, Write},
};

mod hearts;

use hearts::Beat;
pub(super) use hearts::Hearts;

/// How a handler's future ended.
pub(super) enum Ran<T> {
    Returned(T),
    Panicked(String),
    LeaseLost,
}

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
pub(super) enum Untold {
    /// It rests: nothing would stop the effects of a worker that was taken over.
    Rest,
    /// It goes on after an unanswered heartbeat. Atomic work, because its writes commit only under
    /// the current lease, and it may be its own transaction that keeps the store from answering
    /// until it ends; work that fails open, because its effects may happen twice.
    GoOn,
    /// It ends by itself, whatever becomes of its lease: work that is only observed.
    NoMatter,
}

/// Polls `work` until it ends or another worker has taken its lease over; then it is dropped, unless
/// that is of [no matter](Untold::NoMatter).
///
/// The heart beats on a task of its own, so that a handler that blocks its thread keeps its lease.
/// `claimed` is when the claim was asked for: the lease cannot end earlier than `lease` after it.
/// When it has ended, as far as is known here (the process was paused, or the store is away), the
/// work is not polled again before the store has confirmed that the lease is still its own, or,
/// with [`Untold::GoOn`], has left a heartbeat unanswered.
pub(super) async fn run_under_heartbeat<T, F, Fut>(
    hearts: &Hearts,
    work: impl Future<Output = T>,
    extend: F,
    claimed: Moment,
    lease: Duration,
    untold: Untold,
) -> Ran<T>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Write, StoreError>> + Send + 'static,
{
    // A request made by hand may ask for any lease.
    let lease = lease.clamp(Policy::MIN_LEASE, Policy::MAX_RETENTION);
    let first = claimed.running + lease / 3;
    let heart = Arc::new(Heart {
        extend,
        first,
        lease,
        untold,
        held: Held::until(claimed.after(lease)),
    });
    let kept = hearts.keep(first, Arc::clone(&heart) as _);
    if kept.is_next {
        // What a thread has woken, no other thread runs; and the work may block this one.
        yield_now().await;
    }
    let mut work = pin!(AssertUnwindSafe(work).catch_unwind());
    poll_fn(|cx| {
        if untold != Untold::NoMatter {
            match heart.held.look(cx) {
                Standing::Lost => return Poll::Ready(Ran::LeaseLost),
                Standing::Over => return Poll::Pending,
                Standing::Held => {}
            }
        }
        work.as_mut().poll(cx).map(|ended| match ended {
            Ok(returned) => Ran::Returned(returned),
            Err(panic) => Ran::Panicked(panic_message(&*panic)),
        })
    })
    .await
}

/// What keeps one lease.
struct Heart<F> {
    extend: F,
    /// When it beats first.
    first: Instant,
    lease: Duration,
    untold: Untold,
    held: Held,
}

impl<F, Fut> Beat for Heart<F>
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
}

impl<F, Fut> Heart<F>
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
            if self.untold == Untold::GoOn {
                self.held.set(asked.after(self.lease));
            }
        }
    }
}

/// However a heart stops, also by a panic, its lease is not kept any more.
struct Stops<'a>(&'a Held);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.lose();
    }
}

/// Until when the lease is known to hold, by this process's own clocks; `None` if it is lost.
struct Held {
    until: Mutex<Option<Moment>>,
    waiting: AtomicWaker,
}

/// How the lease stands, as far as is known.
enum Standing {
    Held,
    Over,
    Lost,
}

impl Held {
    fn until(until: Moment) -> Self {
        Self {
            until: Mutex::new(Some(until)),
            waiting: AtomicWaker::new(),
        }
    }

    fn set(&self, until: Moment) {
        self.put(Some(until));
    }

    fn lose(&self) {
        self.put(None);
    }

    fn put(&self, until: Option<Moment>) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        self.waiting.wake();
    }

    /// How it stands; wakes the task when that changes.
    fn look(&self, cx: &Context<'_>) -> Standing {
        self.waiting.register(cx.waker());
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        match until {
            None => Standing::Lost,
            Some(until) if until.has_passed(Moment::now()) => Standing::Over,
            Some(_) => Standing::Held,
        }
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
