//! A store that lends transactions which hold nothing. Its records are those of another store; how a transaction comes
//! and how it ends, each test says by its [`Transactions`].

use std::{error::Error, fmt::Debug, future::ready};

use super::*;
use crate::{
    futures::FutureExt as _,
    handler::{Outcome, RecordedRow},
    message::PositionKind,
    store::{
        BatchStore, Begun, Finish, Finished, GroupStore, Lease, Open, Opening, RecordedByStore,
        StoreError, TransactionalStore,
    },
};

/// What is lent to handlers. Nothing is written to it.
#[derive(Debug, Default)]
pub(super) struct Blank;

/// A store that keeps its records in `store`.
#[derive(Debug, Clone)]
pub(super) struct TransactionalDouble<S, T> {
    pub(super) store: S,
    pub(super) transactions: T,
}

/// One that is open.
#[derive(Debug)]
pub(super) struct Transaction {
    blank: Blank,
    /// The claim that it was opened with. A slot in a group has none, and nor has one whose message its own table
    /// records.
    pub(super) lease: Option<Lease>,
}

/// How the transactions of a [`TransactionalDouble`] store come and end.
pub(super) trait Transactions: Clone + Debug + Send + Sync + 'static {
    /// Whether one may move the mark of a stream.
    const MOVE_MARKS: bool = true;

    /// How long one may be open.
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// Whether messages claim while they wait for one.
    fn are_claimed_ahead(&self) -> bool {
        false
    }

    /// Whether a connection still answers while its handler runs.
    fn are_alive(&self) -> bool {
        true
    }

    /// Waits until there is one for a message that is alone in it.
    fn opened(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        ready(Ok(()))
    }

    /// Ends one. `store` has the records.
    fn finish<S: Store>(
        &self,
        store: &S,
        transaction: Transaction,
        finish: Finish<'_>,
    ) -> impl Future<Output = Result<Finished, StoreError>> + Send;
}

impl Transaction {
    fn of(lease: impl Into<Option<Lease>>) -> Self {
        Self {
            blank: Blank,
            lease: lease.into(),
        }
    }
}

impl<S: Store, T: Transactions> Store for TransactionalDouble<S, T> {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.store.claim(request).await
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.store.extend(lease, by).await
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        self.store.complete(lease, outcome, retention).await
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        self.store.release(lease, reason).await
    }

    fn keeps(&self, kind: PositionKind) -> bool {
        self.store.keeps(kind)
    }
}

impl<S: Store, T: Transactions> TransactionalStore<Blank> for TransactionalDouble<S, T> {
    type Transaction = Transaction;

    fn transactions(&self) -> usize {
        1
    }

    fn time_limit(&self) -> Option<Duration> {
        self.transactions.time_limit()
    }

    async fn begin(&self, request: &ClaimRequest) -> Result<Begun<Transaction>, StoreError> {
        self.transactions.opened().await?;
        Ok(match self.claim(request).await? {
            Claim::Acquired(lease) => Begun::Acquired(lease.clone(), Transaction::of(lease)),
            answer => Begun::Not(answer),
        })
    }

    fn is_busy(&self) -> bool {
        self.transactions.are_claimed_ahead()
    }

    async fn claim_ahead(
        &self,
        request: &ClaimRequest,
    ) -> Result<Begun<Opening<'_, Transaction>>, StoreError> {
        Ok(match self.claim(request).await? {
            Claim::Acquired(lease) => {
                let transaction = Transaction::of(lease.clone());
                let opened = self.transactions.opened();
                let opening = opened.map(|opened| opened.map(|()| transaction)).boxed();
                Begun::Acquired(lease, opening)
            }
            answer => Begun::Not(answer),
        })
    }

    fn lend(transaction: &mut Transaction) -> &mut Blank {
        &mut transaction.blank
    }

    async fn is_alive(&self, _: &mut Transaction) -> bool {
        self.transactions.are_alive()
    }

    async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.extend(lease, by).await
    }

    async fn open(&self, _: Open<'_>) -> Result<Transaction, StoreError> {
        Ok(Transaction::of(None))
    }

    async fn finish(
        &self,
        transaction: Transaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        let finished = self.transactions.finish(&self.store, transaction, finish);
        finished.await
    }
}

impl<S: Store, T: Transactions> GroupStore<Blank> for TransactionalDouble<S, T> {
    fn groups(&self) -> usize {
        1
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claim(request).await
    }
}

impl<S: Store, T: Transactions> BatchStore<Blank> for TransactionalDouble<S, T> {
    const MOVES_MARKS: bool = T::MOVE_MARKS;

    async fn claim_for_batch(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claim(request).await
    }
}

/// Nothing is recorded.
impl<S: Store, T: Transactions> RecordedByStore<Blank> for TransactionalDouble<S, T> {
    async fn check(&self, _: &'static str, _: usize) -> Result<(), RecordedByError> {
        Ok(())
    }

    fn violates(&self, _: &(dyn Error + 'static), _: &RecordedRow) -> bool {
        false
    }

    async fn is_recorded(&self, _: &RecordedRow, _: Option<&Lease>) -> Result<bool, StoreError> {
        Ok(false)
    }
}
