//! How an atomic handler comes to its claim and its transaction.

use super::super::{
    Executor,
    grant::{Ended, ended_by, objection},
    heartbeat::{Moment, Ran, WhileUnknown, extend_open, run_under_heartbeat},
    in_flight::Working,
};
use crate::{
    handler::Policy,
    store::{Begun, ClaimRequest, Lease, Owner, Release, Store, TransactionalStore},
};

/// A claim that the message has already.
pub(in crate::executor) struct HeldClaim {
    pub(in crate::executor) lease: Lease,
    /// When it was asked for.
    pub(in crate::executor) claimed: Moment,
}

/// A claim, its transaction, and the mark that it is worked on here.
pub(super) type Opened<S, Tx> = (Lease, <S as TransactionalStore<Tx>>::Transaction, Working);

impl<S: Store> Executor<S> {
    /// As [`begin`](Self::begin), and keeps the claim while a transaction is waited for.
    pub(super) async fn begin_keeping<Tx>(
        &self,
        held: HeldClaim,
        request: &ClaimRequest,
        policy: &Policy,
    ) -> Result<Opened<S, Tx>, Ended>
    where
        S: TransactionalStore<Tx>,
    {
        let work = self.begin(request, policy);
        match self.keeping(&held, request, work).await {
            Ran::Returned(begun) => begun,
            // Whose it is now, a claim tells.
            Ran::LeaseLost | Ran::Panicked(_) => self.begin(request, policy).await,
        }
    }

    /// Keeps a claim for as long as this takes.
    async fn keeping<Tx, T>(
        &self,
        HeldClaim { lease, claimed }: &HeldClaim,
        request: &ClaimRequest,
        work: impl Future<Output = T>,
    ) -> Ran<T>
    where
        S: TransactionalStore<Tx>,
    {
        let by = request.lease;
        let extend = extend_open(&self.store, lease, by);
        run_under_heartbeat(
            &self.heartbeats,
            work,
            extend,
            *claimed,
            by,
            WhileUnknown::GoOn,
        )
        .await
    }

    /// Claims and opens the transaction, unless something speaks against running.
    pub(super) async fn begin<Tx>(
        &self,
        request: &ClaimRequest,
        policy: &Policy,
    ) -> Result<Opened<S, Tx>, Ended>
    where
        S: TransactionalStore<Tx>,
    {
        let (lease, transaction) = match self.store.begin(request).await {
            Ok(Begun::Acquired(lease, transaction)) => (lease, transaction),
            Ok(Begun::Not(answer)) => return Err(Ended::Answered(answer)),
            Err(error) => return Err(Ended::Unavailable(error)),
        };
        let working = self.working(request);
        if let Some(objection) = objection(&lease, policy, self.is_closed(), false) {
            self.store.roll_back(transaction).await;
            return Err(self.object(&lease, &objection).await);
        }
        Ok((lease, transaction, working))
    }

    /// Claims while its transaction is waited for, and keeps the claim until it is open. `None` if
    /// it is to be begun in the usual way.
    pub(super) async fn begin_ahead<Tx>(
        &self,
        request: &mut ClaimRequest,
        policy: &Policy,
    ) -> Option<Result<Opened<S, Tx>, Ended>>
    where
        S: TransactionalStore<Tx>,
    {
        let claimed = Moment::now();
        let (lease, opening) = match self.store.claim_ahead(request).await {
            Ok(Begun::Acquired(lease, opening)) => (lease, opening),
            Ok(Begun::Not(answer)) => return Some(Err(Ended::Answered(answer))),
            Err(error) => return Some(Err(Ended::Unavailable(error))),
        };
        let working = self.working(request);
        if let Some(objection) = objection(&lease, policy, self.is_closed(), false) {
            return Some(Err(self.object(&lease, &objection).await));
        }
        if lease.attempt == policy.max_attempts() {
            // The last one is not to be lost while it waits.
            let _ = self.release(&lease, &Release::Abandoned).await;
            // Who has released never acquires again.
            request.owner = Owner::new();
            return None;
        }
        let held = HeldClaim { lease, claimed };
        let opened = tokio::select! {
            biased;
            opened = self.keeping(&held, request, opening) => Some(opened),
            () = self.closed.closing() => None,
        };
        let HeldClaim { lease, .. } = held;
        match opened {
            Some(Ran::Returned(Ok(transaction))) if self.is_closed() => {
                self.store.roll_back(transaction).await;
            }
            Some(Ran::Returned(Ok(transaction))) => return Some(Ok((lease, transaction, working))),
            // The claim stays: the same owner has it back.
            Some(Ran::Returned(Err(error))) => return Some(Err(Ended::Unavailable(error))),
            // Whose it is now, a claim tells.
            Some(Ran::LeaseLost | Ran::Panicked(_)) => return None,
            None => {}
        }
        Some(Err(self.object(&lease, &Release::Abandoned).await))
    }

    /// Releases a claim under which nothing is to run.
    pub(in crate::executor) async fn object(&self, lease: &Lease, objection: &Release) -> Ended {
        // Nothing ran: a lost lease changes nothing.
        let _ = self.release(lease, objection).await;
        ended_by(objection, lease)
    }
}
