//! The claim of leased work: its lease, who gave it, and who is told how it ended.
//!
//! [`leased`](super::leased), [`observed`](super::observed), [`without_claim`](super::without_claim) and
//! [`claim_locally`](super::claim_locally) make one. [`leased`](super::leased) decides how it ends;
//! [`write_until_known`], below, writes it. What must stay true:
//!
//! - Whoever gave a lease is told of its end, at once or later.
//! - While the end is being told, the key counts as worked on in this process.
//! - An end is either a completion or a release, and is never changed into the other.

use std::{sync::Arc, time::Duration};

use super::{
    Executor,
    attempt::{Granted, Job},
    completion::complete,
    fail_open::{OrLocal, Watch},
    heartbeat::{KeptLease, Moment, WhileUnknown},
    in_flight::Working,
    until_known::until_known,
    verdict::KeyEnd,
};
use crate::{
    executor::ExecutionKind,
    handler::{Attempt, Policy, StoreOutage},
    store::{Lease, Release, Store, Write},
    stores::measured::Measured,
};

/// The claim of leased work.
pub(super) struct LeasedClaim<S> {
    /// The store's, this process's own, or one that is made up: see `protection`.
    pub(super) lease: Lease,
    /// Marks the key as worked on in this process until it is dropped. `None` if nobody gave the lease: the work is
    /// observed without a claim, or unclaimed.
    pub(super) working: Option<Working>,
    pub(super) protection: Protection<S>,
}

/// Who gave the lease, and so who is told how the attempt ended.
pub(super) enum Protection<S> {
    /// The store gave it, and is told; the message waits until the store has answered.
    Store,
    /// The store gave it. If the store is away when the attempt ends, this process remembers the end, and tells the
    /// store later.
    OrLocal(Arc<OrLocal<Measured<S>>>),
    /// This process alone gave it, because the store is away. Dropped before the attempt has ended, the [`Watch`]
    /// reports that it has vanished.
    Local(Watch),
    /// The policy is to observe. The store gave the lease, or nobody did; no answer of the store's stops the work.
    Observed(Observed),
    /// Nobody gave it, and nobody is told: the message has no key, or its handler is plain.
    Nobody,
}

/// What is known of an observed message before it runs.
pub(super) struct Observed {
    /// How the message would have ended without running, if its policy were enforced; `None` if it would have run.
    pub(super) would_have_been: Option<ExecutionKind>,
}

impl<S: Store> Protection<S> {
    /// The protection of a lease that the store has given, as the policy wants it.
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

impl<S: Store> LeasedClaim<S> {
    /// What the handler is told. Without a lease of the store's, its fencing token is 0: a local token is no proof to
    /// others, and might be greater than those of the store.
    pub(super) fn to_attempt(&self, policy: &Policy) -> Attempt {
        let attempt = self.lease.to_attempt(policy.max_attempts());
        let is_protected = match &self.protection {
            Protection::Store | Protection::OrLocal(_) => true,
            Protection::Local(_) | Protection::Nobody => false,
            // Only what the store has claimed is marked as worked on.
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
    /// The permission to run, and the heartbeat that keeps its lease. `claimed` is when the claim was sent, not
    /// when it was answered: the store may have started the lease as early as that.
    pub(super) fn granted(
        &self,
        lease: Lease,
        claimed: Moment,
        working: Option<Working>,
        protection: Protection<S>,
    ) -> Granted<LeasedClaim<S>, ()> {
        let (heartbeats, by) = (&self.executor.heartbeats, self.request.lease);
        let store = &self.executor.store;
        // The heartbeat extends the lease where it was given: in the store, or in this process's memory.
        let kept = match (&protection, &working) {
            (Protection::Store, _) => {
                // While the store may have given the key to another, this work must not go on.
                KeptLease::new(heartbeats, store, &lease, by, claimed, WhileUnknown::Rest)
            }
            (Protection::OrLocal(_), _) => {
                // Its policy would rather have the effect twice than wait for the store.
                KeptLease::new(heartbeats, store, &lease, by, claimed, WhileUnknown::GoOn)
            }
            (Protection::Local(watch), _) => {
                let local = watch.local();
                KeptLease::new(heartbeats, local, &lease, by, claimed, WhileUnknown::Rest)
            }
            (Protection::Observed(_), Some(_)) => {
                // The heartbeat only lets copies elsewhere find the key held. Whatever it is told, the work goes on.
                let while_unknown = WhileUnknown::NoMatter;
                KeptLease::new(heartbeats, store, &lease, by, claimed, while_unknown)
            }
            // There is no lease to extend.
            (Protection::Observed(_), None) | (Protection::Nobody, _) => KeptLease::none(),
        };
        let claim = LeasedClaim {
            lease,
            working,
            protection,
        };
        Granted {
            claim,
            transaction: (),
            kept,
        }
    }
}

impl<S: Store> Executor<S> {
    /// Gives the key back, and waits for as long as the store is away: a key that is not given back is held until its
    /// lease runs out, and leased work is in doubt then. That is also what a dropped call leaves behind.
    pub(super) async fn release(&self, lease: &Lease, reason: &Release) -> Write {
        release(&*self.store, lease, reason).await
    }

    /// Writes how an attempt ended that has done nothing, or whose writes are rolled back, and waits for as long as the
    /// store is away. Dropped half way, it repeats nothing: the attempt runs again. So atomic and recorded-by work ends
    /// its claims by this, and leased work, whose effect has happened, by [`write_until_known`].
    pub(super) async fn write_end_of_undone(
        &self,
        lease: &Lease,
        key_end: &KeyEnd,
        retention: Duration,
    ) -> Write {
        match key_end {
            KeyEnd::Released(reason) => self.release(lease, reason).await,
            KeyEnd::Completed(outcome) => {
                let complete = || self.store.complete(lease, outcome, retention);
                until_known("complete", &lease.key, complete).await
            }
        }
    }
}

/// Writes to a store how an attempt ended: completes or releases the key. It is repeated until the store has answered,
/// so when this returns, the end is committed or refused.
///
/// Dropped half way, it repeats a completion in the background, because the work is done. It does not repeat a
/// release: the lease runs out, and the next attempt is in doubt.
pub(super) async fn write_until_known<S: Store>(
    store: &Arc<S>,
    lease: &Lease,
    key_end: KeyEnd,
    retention: Duration,
    working: Option<Working>,
) -> Write {
    match key_end {
        KeyEnd::Completed(outcome) => complete(store, lease, outcome, retention, working).await,
        KeyEnd::Released(reason) => {
            // Kept until the store has taken the release: whoever waits here for the key would find it held before.
            let _working = working;
            release(&**store, lease, &reason).await
        }
    }
}

/// Gives a key of any store back, and repeats that until the store has answered.
pub(super) async fn release<S: Store>(store: &S, lease: &Lease, reason: &Release) -> Write {
    until_known("release", &lease.key, || store.release(lease, reason)).await
}
