//! Claims that are made before there is a connection for their handler: how many, and when.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Semaphore;

/// How many times as many as there are connections may claim early.
const TIMES_THE_CONNECTIONS: usize = 3;
/// How many times as many are let in together: the others keep the connections busy meanwhile.
const TOGETHER: usize = 2;

/// Those who claim, or have claimed, and wait for a connection. They are let in together, so that
/// their claims share a statement.
#[derive(Clone)]
pub(super) struct EarlyClaims {
    permits: Arc<Semaphore>,
    /// Permits that are free and not given out yet.
    kept_back: Arc<AtomicUsize>,
    together: usize,
}

/// Permission to be one of them, until it is dropped.
pub(in crate::stores::postgres) struct ClaimPermit(EarlyClaims);

impl EarlyClaims {
    pub(super) fn of(connections: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(TIMES_THE_CONNECTIONS * connections)),
            kept_back: Arc::default(),
            together: TOGETHER * connections,
        }
    }

    /// First come, first served.
    pub(super) async fn permit(&self) -> ClaimPermit {
        let permit = self.permits.acquire().await;
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
        // Whoever makes it enough gives all of them out.
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
