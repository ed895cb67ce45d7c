//! How an atomic handler comes to its claim and its transaction.
//!
//! [`atomic`](super) begins each attempt here, by `Job::begin_alone`, in one of three ways:
//!
//! | the message | first | then |
//! |---|---|---|
//! | usually | waits for a transaction | claims, and runs |
//! | while all transactions are in use | claims | waits for a transaction under a heartbeat |
//! | run by itself, after a group or a batch | has its claim | waits under its heartbeat, and claims again as the same owner |
//!
//! What must stay true:
//!
//! - No handler runs without both.
//! - A lease that has to wait is kept.
//! - A last attempt does not wait under a claim that was made ahead.
//! - A transaction is rolled back before its key is given back.
// docs/decisions/0009

use super::{
    super::{
        Executor,
        attempt::{Granted, Job, Uncalled},
        heartbeat::{KeptLease, Moment, Ran},
        in_flight::Working,
        verdict::{NotRun, Objection, begun, lease_or_not_run},
    },
    AtomicClaim,
};
use crate::{
    executor::Execution,
    store::{self, Claim, Finish, Finished, Lease, Store, StoreError, TransactionalStore},
};

/// The permission to run in a transaction.
type InTransaction<S, Tx> = Granted<AtomicClaim<Tx>, <S as TransactionalStore<Tx>>::Transaction>;

/// A claim with its transaction, which no heartbeat keeps yet.
struct Opened<T> {
    lease: Lease,
    transaction: T,
    /// Until this is dropped, the key is worked on in this process.
    working: Working,
    /// When both were asked for: the lease may have begun as early as that.
    claimed: Moment,
}

impl<S: Store> Job<'_, S> {
    /// Claims and opens the transaction, in the order that suits the message and the store.
    ///
    /// Dropped half way, it leaves a claim that was made to its lease; the same owner has it back.
    pub(super) async fn begin_alone<Tx>(&mut self) -> Result<InTransaction<S, Tx>, NotRun>
    where
        S: TransactionalStore<Tx>,
    {
        if let Some(held) = self.held.take() {
            // Boxed, because it is rare: the future of every other message is smaller without it.
            return Box::pin(self.begin_keeping(held)).await;
        }
        // Whoever has claimed ahead loses an attempt if the process ends while it waits. A message that was
        // delivered before may be what ends its process, each time with all that wait there. And a message with
        // only one attempt would be given up without having run.
        let may_claim_ahead = !self.history.attempted && self.policy.max_attempts() > 1;
        if may_claim_ahead && self.executor.store.is_busy() {
            return self.begin_ahead().await;
        }
        self.begin().await
    }

    /// Claims and opens the transaction, unless something speaks against running. The claim is made when a
    /// transaction is there: so no lease runs out in the wait, and no attempt is lost by it.
    async fn begin<Tx>(&self) -> Result<InTransaction<S, Tx>, NotRun>
    where
        S: TransactionalStore<Tx>,
    {
        let opened = self.open().await?;
        Ok(self.keep_opened(opened))
    }

    /// As [`begin`](Self::begin), for a message that has its claim already: its heartbeat goes on during the
    /// wait. The claim in [`open`](Self::open) has the same owner, and is answered with the same lease.
    async fn begin_keeping<Tx>(&self, mut held: KeptLease) -> Result<InTransaction<S, Tx>, NotRun>
    where
        S: TransactionalStore<Tx>,
    {
        let opened = match held.run(self.open()).await {
            // The same lease, unless it was lost meanwhile. The heartbeat that was on until now ends; `keep_opened`
            // starts another.
            Ran::Returned(opened) => opened?,
            // The key is not this message's any more, as far as the heartbeat knows. A claim tells whose it is,
            // or that it was completed by hand: then this is a duplicate.
            Ran::LeaseLost | Ran::Overdue(_) | Ran::Panicked(_) => self.open().await?,
        };
        Ok(self.keep_opened(opened))
    }

    /// Waits for a transaction and claims. What may not run is rolled back, and its key given back.
    async fn open<Tx>(&self) -> Result<Opened<S::Transaction>, NotRun>
    where
        S: TransactionalStore<Tx>,
    {
        let executor = self.executor;
        // Before the call: the lease is never thought to end later than it does. The wait for the transaction is in it,
        // so the first heartbeat may be due at once.
        let claimed = Moment::now();
        let (lease, transaction) = begun(executor.store.begin(self.request).await)?;
        let working = executor.working(self.request);
        if let Some(objection) = self.objection_without_doubt(&lease) {
            // Rolled back first: the release takes as long as the store is away, and another handler may need the
            // transaction's connection.
            executor.roll_back(transaction).await;
            return Err(executor.object(&lease, objection).await);
        }
        Ok(Opened {
            lease,
            transaction,
            working,
            claimed,
        })
    }

    /// The lease of a claim that was made before there is a transaction, unless something speaks against running.
    pub(in crate::executor) async fn lease_of(
        &self,
        answer: Result<Claim, StoreError>,
    ) -> Result<Lease, NotRun> {
        let lease = lease_or_not_run(answer)?;
        match self.objection_without_doubt(&lease) {
            Some(objection) => Err(self.executor.object(&lease, objection).await),
            None => Ok(lease),
        }
    }

    /// Why a key that was just acquired is given back. Work in a transaction is never in doubt: what an earlier attempt
    /// wrote was rolled back with it.
    pub(in crate::executor) fn objection_without_doubt(&self, lease: &Lease) -> Option<Objection> {
        Objection::to(lease, self.policy, self.executor.is_closed(), false)
    }

    /// Starts the heartbeat of a claim whose transaction is open.
    fn keep_opened<Tx>(&self, opened: Opened<S::Transaction>) -> InTransaction<S, Tx>
    where
        S: TransactionalStore<Tx>,
    {
        let kept = self
            .executor
            .keep::<Tx>(&opened.lease, self.request, opened.claimed);
        Granted {
            claim: AtomicClaim::new(opened.lease, opened.working),
            transaction: opened.transaction,
            kept,
        }
    }

    /// Claims first, and keeps the claim by a heartbeat while it waits for its transaction. Many claims then share a
    /// statement. If the executor is closed during the wait, it ends at once, and was no attempt.
    async fn begin_ahead<Tx>(&mut self) -> Result<InTransaction<S, Tx>, NotRun>
    where
        S: TransactionalStore<Tx>,
    {
        let executor = self.executor;
        // Before the call: the lease is never thought to end later than it does.
        let claimed = Moment::now();
        // 1. The claim. `opening` is the wait for the transaction; until it is over, it counts among those who have
        //   claimed ahead.
        let (lease, opening) = begun(executor.store.claim_ahead(self.request).await)?;
        let working = executor.working(self.request);
        // 2. What speaks against waiting with it.
        if let Some(objection) = self.objection_without_doubt(&lease) {
            return Err(executor.object(&lease, objection).await);
        }
        if lease.attempt == self.policy.max_attempts() {
            self.give_back_last(&lease).await;
            // It waits anew, without a claim, and so counts no longer among those who have claimed ahead: only so many
            // may.
            drop((opening, working));
            return self.begin().await;
        }
        // 3. The wait, under a heartbeat, until the executor is closed.
        let mut kept = executor.keep::<Tx>(&lease, self.request, claimed);
        let opened = tokio::select! {
            // First the transaction: if the executor is closed, too, one that is there is rolled back below, and not
            // just dropped.
            biased;
            opened = kept.run(opening) => Some(opened),
            () = executor.closed.closing() => None,
        };
        // 4. What came of it.
        match opened {
            // Closed since: nothing is started. The claim is given back below.
            Some(Ran::Returned(Ok(transaction))) if executor.is_closed() => {
                executor.roll_back(transaction).await;
            }
            Some(Ran::Returned(Ok(transaction))) => {
                return Ok(Granted {
                    claim: AtomicClaim::new(lease, working),
                    transaction,
                    kept,
                });
            }
            // No transaction, so it was no attempt. The claim stays, and nobody keeps it: the same owner has it
            // back, as the same attempt, and a store that is away would not take a release anyway.
            Some(Ran::Returned(Err(error))) => return Err(NotRun::Unavailable(error)),
            // As in `begin_keeping`: a claim tells whose the key is.
            Some(Ran::LeaseLost | Ran::Overdue(_) | Ran::Panicked(_)) => {
                drop((working, kept));
                return self.begin().await;
            }
            // Closed during the wait, which was dropped with whatever it had begun.
            None => {}
        }
        // Here the executor is closed, and nothing ran.
        drop(kept);
        Err(executor.object(&lease, Objection::Closed).await)
    }
}

impl<S: Store> Executor<S> {
    /// Keeps the claim of atomic work by a heartbeat, beside its transaction or while it waits for one.
    pub(in crate::executor) fn keep<Tx>(
        &self,
        lease: &Lease,
        request: &store::ClaimRequest,
        claimed: Moment,
    ) -> KeptLease
    where
        S: TransactionalStore<Tx>,
    {
        let (heartbeats, by) = (&self.heartbeats, request.lease);
        KeptLease::beside_transaction(heartbeats, &self.store, lease, by, claimed)
    }

    /// Rolls the handler's writes back. If the store cannot, they go with the transaction.
    pub(in crate::executor) async fn roll_back<Tx>(&self, transaction: S::Transaction)
    where
        S: TransactionalStore<Tx>,
    {
        // It returns when nothing of the handler's is in the way any more. So whatever is written about the key after
        // it waits for no lock of this transaction.
        let error = match self.store.finish(transaction, Finish::RollBack).await {
            Ok(Finished::RolledBack) => return,
            Ok(other) => other.is_no_answer("a rollback"),
            Err(error) => error,
        };
        tracing::warn!(%error, "a handler's transaction was not rolled back by the store");
    }

    /// Ends the claim, if there is one, of a message whose handler was not called.
    pub(in crate::executor) async fn give_back_uncalled<T, E>(
        &self,
        lease: Option<&Lease>,
        why: Uncalled,
    ) -> Execution<T, E> {
        if let (Some(lease), Some(release)) = (lease, why.release()) {
            // Nothing ran: a lost lease changes nothing.
            let _ = self.release(lease, &release).await;
        }
        why.into_execution()
    }

    /// Gives a key back of which nothing is to run, and says how its message ends. Waits for as long as the store is
    /// away.
    pub(in crate::executor) async fn object(&self, lease: &Lease, objection: Objection) -> NotRun {
        // Nothing ran: a lost lease changes nothing.
        let _ = self.release(lease, &objection.release()).await;
        objection.into()
    }
}
