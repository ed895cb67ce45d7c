//! Stores that lend a transaction.

use std::time::Duration;

use tracing::{Instrument as _, Span};

use super::{Measured, answer::Answer};
use crate::store::{
    Begun, ClaimRequest, Finish, Finished, Lease, Open, Opening, StoreError, TransactionalStore,
    Write, outbox::SharedOutbox,
};
use crate::telemetry::{Stopwatch, spans};

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

    fn outbox(&self) -> Option<SharedOutbox> {
        self.store.outbox()
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

    /// To open one without a claim is a beginning; the wait for a slot is none.
    async fn open(&self, opening: Open<'_>) -> Result<S::Transaction, StoreError> {
        match opening {
            Open::Batch | Open::Recorded { .. } => self.opened(self.store.open(opening)).await,
            Open::Group { .. } => self.store.open(opening).await,
        }
    }

    async fn finish(
        &self,
        transaction: S::Transaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        let span = match finish {
            Finish::Complete(it) => spans::complete(it.lease.key.as_str()),
            Finish::CompleteAll(completions) => spans::complete_all(completions.len()),
            Finish::MoveMark { .. } | Finish::Record { .. } => spans::record(),
            Finish::RollBack => return self.store.finish(transaction, finish).await,
        };
        let asked = self.calls.commit.ask(span);
        let answer = self
            .store
            .finish(transaction, finish)
            .instrument(asked.span())
            .await;
        asked.answered(answer)
    }
}

impl<S> Measured<S> {
    /// A beginning without its claim.
    async fn opened<T>(
        &self,
        opening: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
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
