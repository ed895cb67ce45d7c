//! How an atomic handler comes to its claim and its transaction.

use super::{
    super::{
        Executor,
        attempt::{Begun, Job},
        heartbeat::{KeptLease, Moment, Ran},
        in_flight::Working,
        verdict::{Ended, ended_by, objection},
    },
    Open,
};
use crate::store::{self, Lease, Owner, Release, Store, TransactionalStore};

/// Leave to run in a transaction.
type InTransaction<S, Tx> = Begun<Open<Tx>, <S as TransactionalStore<Tx>>::Transaction>;

/// A claim with its transaction.
struct Opened<T> {
    lease: Lease,
    transaction: T,
    working: Working,
    /// When it was asked for.
    claimed: Moment,
}

impl<S: Store> Job<'_, S> {
    /// Claims and opens the transaction, in the order that suits the message and the store.
    pub(super) async fn begin_alone<Tx>(&mut self) -> Result<InTransaction<S, Tx>, Ended>
    where
        S: TransactionalStore<Tx>,
    {
        if let Some(held) = self.held.take() {
            // What few messages come to is a future of its own, so that the others' are small.
            return Box::pin(self.begin_keeping(held)).await;
        }
        // What was delivered before may be what ended its worker, together with all who had claimed.
        // Nor is an only attempt to be lost while it waits.
        let may_claim_ahead = !self.history.attempted && self.policy.max_attempts() > 1;
        if may_claim_ahead && self.executor.store.is_busy() {
            return self.begin_ahead().await;
        }
        self.begin().await
    }

    /// Claims and opens the transaction, unless something speaks against running.
    async fn begin<Tx>(&self) -> Result<InTransaction<S, Tx>, Ended>
    where
        S: TransactionalStore<Tx>,
    {
        let opened = self.open().await?;
        Ok(self.begun(opened))
    }

    /// As [`begin`](Self::begin), and keeps a claim while a transaction is waited for.
    async fn begin_keeping<Tx>(&self, mut held: KeptLease) -> Result<InTransaction<S, Tx>, Ended>
    where
        S: TransactionalStore<Tx>,
    {
        let opened = match held.run(self.open()).await {
            Ran::Returned(opened) => opened?,
            // Whose it is now, a claim tells.
            Ran::LeaseLost | Ran::Overdue(_) | Ran::Panicked(_) => self.open().await?,
        };
        Ok(self.begun(opened))
    }

    async fn open<Tx>(&self) -> Result<Opened<S::Transaction>, Ended>
    where
        S: TransactionalStore<Tx>,
    {
        let executor = self.executor;
        let claimed = Moment::now();
        let (lease, transaction) = match executor.store.begin(self.request).await {
            Ok(store::Begun::Acquired(lease, transaction)) => (lease, transaction),
            Ok(store::Begun::Not(answer)) => return Err(Ended::Answered(answer)),
            Err(error) => return Err(Ended::Unavailable(error)),
        };
        let working = executor.working(self.request);
        if let Some(objection) = objection(&lease, self.policy, executor.is_closed(), false) {
            executor.store.roll_back(transaction).await;
            return Err(executor.object(&lease, &objection).await);
        }
        Ok(Opened {
            lease,
            transaction,
            working,
            claimed,
        })
    }

    fn begun<Tx>(&self, opened: Opened<S::Transaction>) -> InTransaction<S, Tx>
    where
        S: TransactionalStore<Tx>,
    {
        let kept = self
            .executor
            .keep::<Tx>(&opened.lease, self.request, opened.claimed);
        Begun {
            claim: Open::new(opened.lease, opened.working),
            transaction: opened.transaction,
            kept,
        }
    }

    /// Claims while its transaction is waited for, and keeps the claim until it is open.
    async fn begin_ahead<Tx>(&mut self) -> Result<InTransaction<S, Tx>, Ended>
    where
        S: TransactionalStore<Tx>,
    {
        let executor = self.executor;
        let claimed = Moment::now();
        let (lease, opening) = match executor.store.claim_ahead(self.request).await {
            Ok(store::Begun::Acquired(lease, opening)) => (lease, opening),
            Ok(store::Begun::Not(answer)) => return Err(Ended::Answered(answer)),
            Err(error) => return Err(Ended::Unavailable(error)),
        };
        let working = executor.working(self.request);
        if let Some(objection) = objection(&lease, self.policy, executor.is_closed(), false) {
            return Err(executor.object(&lease, &objection).await);
        }
        if lease.attempt == self.policy.max_attempts() {
            // The last one is not to be lost while it waits.
            let _ = executor.release(&lease, &Release::Abandoned).await;
            drop((opening, working));
            // Who has released never acquires again.
            self.request.owner = Owner::new();
            return self.begin().await;
        }
        let mut kept = executor.keep::<Tx>(&lease, self.request, claimed);
        let opened = tokio::select! {
            biased;
            opened = kept.run(opening) => Some(opened),
            () = executor.closed.closing() => None,
        };
        match opened {
            Some(Ran::Returned(Ok(transaction))) if executor.is_closed() => {
                executor.store.roll_back(transaction).await;
            }
            Some(Ran::Returned(Ok(transaction))) => {
                return Ok(Begun {
                    claim: Open::new(lease, working),
                    transaction,
                    kept,
                });
            }
            // The claim stays: the same owner has it back.
            Some(Ran::Returned(Err(error))) => return Err(Ended::Unavailable(error)),
            // Whose it is now, a claim tells.
            Some(Ran::LeaseLost | Ran::Overdue(_) | Ran::Panicked(_)) => {
                drop((working, kept));
                return self.begin().await;
            }
            None => {}
        }
        drop(kept);
        Err(executor.object(&lease, &Release::Abandoned).await)
    }
}

impl<S: Store> Executor<S> {
    /// Keeps a claim beside the transaction that holds its key.
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

    /// Releases a claim under which nothing is to run.
    pub(in crate::executor) async fn object(&self, lease: &Lease, objection: &Release) -> Ended {
        // Nothing ran: a lost lease changes nothing.
        let _ = self.release(lease, objection).await;
        ended_by(objection, lease)
    }
}
