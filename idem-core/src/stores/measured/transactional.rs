//! Stores that lend a transaction.

use std::time::Duration;

use tracing::{Instrument as _, Span};

use super::{Measured, answer::Answer};
use crate::telemetry::{Stopwatch, spans};
use crate::{
    handler::Outcome,
    store::{Begun, ClaimRequest, Finished, Lease, Opening, StoreError, TransactionalStore, Write},
};

impl<Tx, S: TransactionalStore<Tx>> TransactionalStore<Tx> for Measured<S> {
    type Transaction = S::Transaction;

    fn transactions(&self) -> usize {
        self.store.transactions()
    }

    fn time_limit(&self) -> Option<Duration> {
        self.store.time_limit()
    }

    async fn begin(&self, request: &ClaimRequest) -> Result<Begun<S::Transaction>, StoreError> {
        let asked = self.calls.begin.ask(spans::claim(request.key.as_str()));
        let answer = self.store.begin(request).instrument(asked.span()).await;
        asked.answered(answer)
    }

    fn is_busy(&self) -> bool {
        self.store.is_busy()
    }

    async fn claim_ahead(
        &self,
        request: &ClaimRequest,
    ) -> Result<Begun<Opening<'_, S::Transaction>>, StoreError> {
        let asked = self
            .calls
            .claim_ahead
            .ask(spans::claim(request.key.as_str()));
        let answer = self
            .store
            .claim_ahead(request)
            .instrument(asked.span())
            .await;
        Ok(match asked.answered(answer)? {
            Begun::Acquired(lease, opening) => {
                Begun::Acquired(lease, Box::pin(self.opened(opening)))
            }
            Begun::Not(answer) => Begun::Not(answer),
        })
    }

    fn lend(transaction: &mut S::Transaction) -> &mut Tx {
        S::lend(transaction)
    }

    async fn is_alive(&self, transaction: &mut S::Transaction) -> bool {
        self.store.is_alive(transaction).await
    }

    async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        let asked = self.calls.extend.ask(Span::none());
        let answer = self
            .store
            .extend_open(lease, by)
            .instrument(asked.span())
            .await;
        asked.answered(answer)
    }

    async fn commit(
        &self,
        transaction: S::Transaction,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Finished, StoreError> {
        let asked = self.calls.commit.ask(spans::complete(lease.key.as_str()));
        let answer = self
            .store
            .commit(transaction, lease, outcome, retention)
            .instrument(asked.span())
            .await;
        asked.answered(answer)
    }

    async fn roll_back(&self, transaction: S::Transaction) {
        self.store.roll_back(transaction).await;
    }
}

impl<S> Measured<S> {
    /// What is left of a beginning whose claim was made ahead.
    async fn opened<T>(&self, opening: Opening<'_, T>) -> Result<T, StoreError> {
        let call = &self.calls.begin;
        let began = Stopwatch::start();
        let opened = opening.await;
        call.seconds.record(began);
        if opened.is_err() {
            call.errors.add();
        }
        opened
    }
}

impl<T> Answer for Begun<T> {
    fn label(&self) -> &'static str {
        match self {
            Self::Acquired(..) => "acquired",
            Self::Not(answer) => answer.label(),
        }
    }

    fn attempt(&self) -> Option<u32> {
        match self {
            Self::Acquired(lease, _) => Some(lease.attempt),
            Self::Not(_) => None,
        }
    }
}
