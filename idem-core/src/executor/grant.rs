//! Leave to run under a lease: who gave it, and who is told how it ended.

use std::{sync::Arc, time::Duration};

use super::{
    Executor,
    attempt::{Begun, Job},
    completion::complete,
    fail_open::{OrLocal, Watch},
    heartbeat::{KeptLease, Moment, WhileUnknown},
    in_flight::Working,
    until_known::until_known,
    verdict::End,
};
use crate::{
    executor::ExecutionKind,
    handler::{Attempt, Policy, StoreOutage},
    store::{Lease, Release, Store, Write},
    stores::measured::Measured,
};

/// Leave to run under a lease.
pub(super) struct Grant<S> {
    pub(super) lease: Lease,
    /// `None` if the key is not claimed, and its work only observed.
    pub(super) working: Option<Working>,
    pub(super) protection: Protection<S>,
}

/// Who gave the lease, and who is told how it ended.
pub(super) enum Protection<S> {
    Store,
    /// The store gave it. If that is away in the end, this process remembers the end.
    OrLocal(Arc<OrLocal<Measured<S>>>),
    /// This process alone, because the store is away.
    Local(Watch),
    /// The store, if it did, and what it says stops nothing.
    Observed(Observed),
}

/// What was found out about a message before it ran: how it would have ended, if not by running.
pub(super) struct Observed {
    pub(super) would_have_been: Option<ExecutionKind>,
}

impl<S: Store> Protection<S> {
    /// Of a lease that the store has given.
    pub(super) fn of_store(job: &Job<'_, S>) -> Self {
        match job.policy.store_outage() {
            StoreOutage::FailOpen => Self::OrLocal(Arc::new(OrLocal::new(
                &job.executor.store,
                &job.executor.local,
                job.request,
            ))),
            _ => Self::Store,
        }
    }
}

impl<S: Store> Grant<S> {
    pub(super) fn attempt(&self, policy: &Policy) -> Attempt {
        let attempt = self.lease.to_attempt(policy.max_attempts());
        let is_protected = match &self.protection {
            Protection::Store | Protection::OrLocal(_) => true,
            Protection::Local(_) => false,
            Protection::Observed(_) => self.working.is_some(),
        };
        if is_protected {
            attempt
        } else {
            attempt.unprotected()
        }
    }
}

impl<S: Store> Job<'_, S> {
    /// Leave to run, and the heartbeat that keeps it.
    pub(super) fn granted(
        &self,
        lease: Lease,
        claimed: Moment,
        working: Option<Working>,
        protection: Protection<S>,
    ) -> Begun<Grant<S>, ()> {
        let (heartbeats, by) = (&self.executor.heartbeats, self.request.lease);
        let store = &self.executor.store;
        let kept = match (&protection, &working) {
            (Protection::Store, _) => {
                KeptLease::new(heartbeats, store, &lease, by, claimed, WhileUnknown::Rest)
            }
            (Protection::OrLocal(_), _) => {
                KeptLease::new(heartbeats, store, &lease, by, claimed, WhileUnknown::GoOn)
            }
            (Protection::Local(watch), _) => {
                let local = watch.local();
                KeptLease::new(heartbeats, local, &lease, by, claimed, WhileUnknown::Rest)
            }
            (Protection::Observed(_), Some(_)) => {
                let while_unknown = WhileUnknown::NoMatter;
                KeptLease::new(heartbeats, store, &lease, by, claimed, while_unknown)
            }
            (Protection::Observed(_), None) => KeptLease::none(),
        };
        let claim = Grant {
            lease,
            working,
            protection,
        };
        Begun {
            claim,
            transaction: (),
            kept,
        }
    }
}

impl<S: Store> Executor<S> {
    /// Gives the key back; waits out a store that is away, as the delivery does.
    pub(super) async fn release(&self, lease: &Lease, reason: &Release) -> Write {
        release(&*self.store, lease, reason).await
    }
}

/// Tells a store how an attempt ended, until it has taken that.
pub(super) async fn tell<S: Store>(
    store: &Arc<S>,
    lease: &Lease,
    end: End,
    retention: Duration,
    working: Option<Working>,
) -> Write {
    match end {
        End::Completed(outcome) => complete(store, lease, outcome, retention, working).await,
        End::Released(reason) => {
            // Until then the key is worked on.
            let _working = working;
            release(&**store, lease, &reason).await
        }
    }
}

pub(super) async fn release<S: Store>(store: &S, lease: &Lease, reason: &Release) -> Write {
    until_known("release", &lease.key, || store.release(lease, reason)).await
}
