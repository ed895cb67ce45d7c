//! A store with a bug, for tests of the tests: what they are to find out must be found out.

use std::time::Duration;

use idem_amqp::{
    Key, Store, StoreError,
    handler::Outcome,
    message::PositionKind,
    store::{
        Begun, Claim, ClaimRequest, Completion, Finish, Finished, Lease, Open, Purge, Release,
        TransactionalStore, Write, outbox::SharedOutbox,
    },
};
use serde::{Deserialize, Serialize};

mod batch;
mod entity;
mod group;
mod sessions;
mod streams;

/// A bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flaw {
    /// Completions are answered at once and done later: the ack comes before what it vouches for.
    AnswersEarly,
    /// Every claim is of a key that nobody has heard of: copies are not recognised.
    Forgets,
    /// What handlers publish is not committed with what they write.
    DropsEvents,
}

/// A store that has the bug, if there is one.
#[derive(Debug, Clone)]
pub struct Flawed<S> {
    store: S,
    flaw: Option<Flaw>,
}

/// Between the early answer and what it was about.
const LATE: Duration = Duration::from_millis(500);

impl<S> Flawed<S> {
    /// A store with this bug.
    pub fn new(store: S, flaw: Option<Flaw>) -> Self {
        Self { store, flaw }
    }

    fn claimed(&self, request: &ClaimRequest) -> ClaimRequest {
        let mut request = request.clone();
        if self.flaw == Some(Flaw::Forgets) {
            let number = format!("{:016x}", fastrand::u64(..));
            request.key = Key::new("forgotten", number).expect("letters and digits");
        }
        request
    }

    fn answers_early(&self) -> bool {
        self.flaw == Some(Flaw::AnswersEarly)
    }
}

impl<S: Store + Clone> Store for Flawed<S> {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.store.claim(&self.claimed(request)).await
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
        if !self.answers_early() {
            return self.store.complete(lease, outcome, retention).await;
        }
        let (store, lease, outcome) = (self.store.clone(), lease.clone(), outcome.clone());
        tokio::spawn(async move {
            tokio::time::sleep(LATE).await;
            store.complete(&lease, &outcome, retention).await
        });
        Ok(Write::Applied)
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        self.store.release(lease, reason).await
    }

    fn keeps(&self, kind: PositionKind) -> bool {
        self.store.keeps(kind)
    }
}

impl<S: Purge + Clone> Purge for Flawed<S> {
    async fn purge(&self, batch: u32) -> Result<u32, StoreError> {
        self.store.purge(batch).await
    }
}

impl<Tx, S> TransactionalStore<Tx> for Flawed<S>
where
    S: TransactionalStore<Tx> + Clone,
{
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

    async fn begin(&self, request: &ClaimRequest) -> Result<Begun<Self::Transaction>, StoreError> {
        self.store.begin(&self.claimed(request)).await
    }

    fn lend(transaction: &mut Self::Transaction) -> &mut Tx {
        S::lend(transaction)
    }

    async fn is_alive(&self, transaction: &mut Self::Transaction) -> bool {
        self.store.is_alive(transaction).await
    }

    async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.store.extend_open(lease, by).await
    }

    async fn open(&self, opening: Open<'_>) -> Result<Self::Transaction, StoreError> {
        self.store.open(opening).await
    }

    async fn finish(
        &self,
        transaction: Self::Transaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        if self.flaw == Some(Flaw::DropsEvents)
            && let Finish::Complete(it) = finish
        {
            let without = Completion::new(it.lease, it.outcome, it.retention);
            let without = Finish::Complete(without);
            return self.store.finish(transaction, without).await;
        }
        if !self.answers_early() {
            return self.store.finish(transaction, finish).await;
        }
        let store = self.store.clone();
        match finish {
            Finish::Complete(it) => {
                let (lease, outcome) = (it.lease.clone(), it.outcome.clone());
                let retention = it.retention;
                tokio::spawn(async move {
                    tokio::time::sleep(LATE).await;
                    let complete = Finish::Complete(Completion::new(&lease, &outcome, retention));
                    store.finish(transaction, complete).await
                });
            }
            Finish::CompleteAll(completions) => {
                let completions: Vec<_> = completions
                    .iter()
                    .map(|it| (it.lease.clone(), it.outcome.clone(), it.retention))
                    .collect();
                tokio::spawn(async move {
                    tokio::time::sleep(LATE).await;
                    let completions: Vec<_> = completions
                        .iter()
                        .map(|(lease, outcome, retention)| {
                            Completion::new(lease, outcome, *retention)
                        })
                        .collect();
                    let complete = Finish::CompleteAll(&completions);
                    store.finish(transaction, complete).await
                });
            }
            _ => return store.finish(transaction, finish).await,
        }
        Ok(Finished::Committed)
    }
}
