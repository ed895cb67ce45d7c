//! Claims that are made before there is a connection for their handler: how many, and when.
//!
//! Stores that lend a transaction (`postgres`, `sqlite`) have one; their `atomic` holds a permit from before the claim
//! until its connection is there. What must stay true:
//!
//! - No permit is lost, or messages would wait for ever.
//! - Those who wait are let in many at a time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Semaphore;

/// Early claims per connection, at most. Each of them loses an
/// attempt if the process is killed, so there are not more.
const TIMES_THE_CONNECTIONS: usize = 3;
/// Early claims per connection that are let in together. The rest of the permits is with messages that have
/// claimed, and these keep the connections busy meanwhile.
const TOGETHER: usize = 2;

/// The permits of those who claim, or have claimed, and wait for a connection. Permits that come
/// back are collected and given out together. If each let one message in at once, hardly any claims
/// would share a statement.
#[derive(Clone)]
pub(super) struct EarlyClaims {
    /// Permits that can be taken.
    permits: Arc<Semaphore>,
    /// Permits that have come back and wait until they are enough.
    kept_back: Arc<AtomicUsize>,
    /// How many are enough.
    together: usize,
}

/// Permission to claim early, until it is dropped.
pub(super) struct ClaimPermit(EarlyClaims);

impl EarlyClaims {
    /// The permits for so many connections.
    pub(super) fn of(connections: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(TIMES_THE_CONNECTIONS * connections)),
            kept_back: Arc::default(),
            together: TOGETHER * connections,
        }
    }

    /// Waits for a permit, first come, first served.
    ///
    /// # Cancel safety
    /// Dropped while it waits, it takes none.
    pub(super) async fn permit(&self) -> ClaimPermit {
        let permit = self.permits.acquire().await;
        // The semaphore would take the permit back at once. `ClaimPermit` brings it back instead.
        permit.expect("the semaphore is never closed").forget();
        ClaimPermit(self.clone())
    }
}

impl Drop for ClaimPermit {
    fn drop(&mut self) {
        let EarlyClaims {
            permits,
            kept_back,
            together,
        } = &self.0;
        // Whoever makes it enough gives all of them out. If two do at once, the second finds none
        // left, and gives out zero. It always comes to enough: while too few are kept back and none
        // is free, more messages than there are connections hold one, and each of them brings it
        // back.
        let free = kept_back.fetch_add(1, Ordering::AcqRel) + 1;
        if free >= *together {
            permits.add_permits(kept_back.swap(0, Ordering::AcqRel));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, future::join_all};

    use super::*;

    #[tokio::test]
    async fn those_who_wait_are_let_in_together() {
        let early_claims = EarlyClaims::of(2);
        let mut permits = join_all((0..6).map(|_| early_claims.permit())).await;
        let mut waiting: Vec<_> = (0..6).map(|_| Box::pin(early_claims.permit())).collect();
        let mut let_in = || {
            let now = waiting
                .iter_mut()
                .map(|permit| permit.as_mut().now_or_never());
            let now: Vec<_> = now.flatten().collect();
            now.len()
        };
        for free in 1..=3 {
            permits.pop();
            assert_eq!(let_in(), 0, "{free} free");
        }
        permits.pop();
        assert_eq!(let_in(), 4);
    }

    #[tokio::test]
    async fn no_permit_is_lost() {
        let early_claims = EarlyClaims::of(1);
        for _ in 0..100 {
            let free = std::iter::from_fn(|| early_claims.permit().now_or_never());
            let held: Vec<_> = free.collect();
            assert!(!held.is_empty());
            let mut gone = Box::pin(early_claims.permit());
            assert!(gone.as_mut().now_or_never().is_none());
            drop((held, gone));
            // The runtime lets a task take only so much at a time.
            tokio::task::yield_now().await;
        }
        let permits = early_claims.permits.available_permits()
            + early_claims.kept_back.load(Ordering::Acquire);
        assert_eq!(permits, TIMES_THE_CONNECTIONS);
    }
}
