//! Transactions: a claim is looked up before one is begun, and a completion is remembered when it has committed.

use std::time::Duration;

use super::{
    Cached,
    store::{Asked, LookedUp},
};
use crate::store::{
    Begun, Claim, ClaimRequest, Finish, Finished, Lease, Open, Opening, StoreError,
    TransactionalStore, Write, outbox::SharedOutbox,
};

impl<S> Cached<S> {
    fn learn_begun<T>(&self, request: &ClaimRequest, begun: &Begun<T>, asked: Asked) {
        match begun {
            Begun::Acquired(lease, _) => {
                let acquired = Claim::Acquired(lease.clone());
                self.learn(request, &acquired, asked);
            }
            Begun::Not(answer) => self.learn(request, answer, asked),
        }
    }
}

// Not what somebody is looking for whose store cannot lend what the handler wants.
#[diagnostic::do_not_recommend]
impl<Tx, S: TransactionalStore<Tx>> TransactionalStore<Tx> for Cached<S> {
    type Transaction = S::Transaction;

    fn transactions(&self) -> usize {
        self.0.store.transactions()
    }

    fn time_limit(&self) -> Option<Duration> {
        self.0.store.time_limit()
    }

    async fn begin(&self, request: &ClaimRequest) -> Result<Begun<Self::Transaction>, StoreError> {
        let asked = match self.look_up(request).await {
            LookedUp::Known(answer) => return Ok(Begun::Not(answer)),
            LookedUp::Unknown(asked) => asked,
        };
        let begun = self.0.store.begin(request).await?;
        self.learn_begun(request, &begun, asked);
        Ok(begun)
    }

    fn is_busy(&self) -> bool {
        self.0.store.is_busy()
    }

    async fn claim_ahead(
        &self,
        request: &ClaimRequest,
    ) -> Result<Begun<Opening<'_, Self::Transaction>>, StoreError> {
        let asked = match self.look_up(request).await {
            LookedUp::Known(answer) => return Ok(Begun::Not(answer)),
            LookedUp::Unknown(asked) => asked,
        };
        let claimed = self.0.store.claim_ahead(request).await?;
        self.learn_begun(request, &claimed, asked);
        Ok(claimed)
    }

    fn outbox(&self) -> Option<SharedOutbox> {
        self.0.store.outbox()
    }

    fn lend(transaction: &mut Self::Transaction) -> &mut Tx {
        S::lend(transaction)
    }

    async fn is_alive(&self, transaction: &mut Self::Transaction) -> bool {
        self.0.store.is_alive(transaction).await
    }

    async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.0.store.extend_open(lease, by).await
    }

    async fn open(&self, opening: Open<'_>) -> Result<Self::Transaction, StoreError> {
        self.0.store.open(opening).await
    }

    async fn finish(
        &self,
        transaction: Self::Transaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        let one;
        let completions = match finish {
            Finish::Complete(completion) => {
                one = [completion];
                &one[..]
            }
            Finish::CompleteAll(completions) => completions,
            // What the handlers' own tables record is theirs to forget, and a mark leaves no record.
            _ => return self.0.store.finish(transaction, finish).await,
        };
        for completion in completions {
            self.0.known.completing(completion.lease);
        }
        let asked = self.asking();
        let finished = self.0.store.finish(transaction, finish).await?;
        if finished == Finished::Committed {
            for it in completions {
                self.completed(it.lease, it.outcome, it.retention, asked);
            }
        }
        Ok(finished)
    }
}
