//! Atomic handlers: the transaction is the store's, the way to it is the link.

use std::time::Duration;

use idem_core::store::{
    Begun, Claim, ClaimRequest, Completion, Finish, Finished, Lease, Open, StoreError,
    TransactionalStore, Write, outbox::SharedOutbox,
};

use super::{Call, FaultyStore, probe};

// Not what somebody is looking for whose store cannot lend what the handler wants.
#[diagnostic::do_not_recommend]
impl<Tx, S: TransactionalStore<Tx>> TransactionalStore<Tx> for FaultyStore<S> {
    type Transaction = S::Transaction;

    fn transactions(&self) -> usize {
        self.store.transactions()
    }

    fn time_limit(&self) -> Option<Duration> {
        self.store.time_limit()
    }

    fn outbox(&self) -> Option<SharedOutbox> {
        self.store.outbox()
    }

    async fn begin(&self, request: &ClaimRequest) -> Result<Begun<S::Transaction>, StoreError> {
        probe::before_claim().await;
        let begun = Box::pin(self.store.begin(request));
        let begun = self.call(Call::Claim, begun).await?;
        match &begun {
            Begun::Not(claim) => probe::claimed(claim).await,
            Begun::Acquired(lease, _) => {
                probe::claimed(&Claim::Acquired(lease.clone())).await;
            }
        }
        Ok(begun)
    }

    fn lend(transaction: &mut S::Transaction) -> &mut Tx {
        S::lend(transaction)
    }

    async fn is_alive(&self, transaction: &mut S::Transaction) -> bool {
        self.undisturbed(self.store.is_alive(transaction)).await
    }

    async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.call(Call::Extend, self.store.extend_open(lease, by))
            .await
    }

    async fn open(&self, opening: Open<'_>) -> Result<S::Transaction, StoreError> {
        if let Open::Batch = opening {
            self.gather().await;
        }
        let Open::Recorded { .. } = opening else {
            let opened = Box::pin(self.store.open(opening));
            return self.undisturbed(opened).await;
        };
        // It is what a claim is to the others.
        probe::before_claim().await;
        let opened = self.call(Call::Claim, self.store.open(opening)).await?;
        probe::opened().await;
        Ok(opened)
    }

    async fn finish(
        &self,
        transaction: S::Transaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        // Boxed, as what opens one: unoptimised, it is a large part of a test's stack.
        let finished = Box::pin(self.store.finish(transaction, finish));
        if let Finish::RollBack = finish {
            return self.undisturbed(finished).await;
        }
        match finish {
            Finish::Complete(Completion { outcome, .. }) => probe::before_completion(outcome).await,
            Finish::CompleteAll(completions) => {
                self.link.complete_together(completions);
                probe::before_recording().await;
            }
            // A mark, or an entity: they are met where a completion is.
            _ => probe::before_recording().await,
        }
        let finished = self.call(Call::Complete, finished).await?;
        if finished == Finished::Committed {
            probe::completed().await;
        }
        Ok(finished)
    }
}
