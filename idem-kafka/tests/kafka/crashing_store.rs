//! A store that hears nothing more of its worker from a chosen point on, as if the worker's process had been killed
//! there.

use std::{
    future::pending,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use idem_core::{
    Key,
    handler::Outcome,
    message::PositionKind,
    store::{
        BatchStore, Begun, Claim, ClaimRequest, Finish, Finished, Lease, Open, Owner, Purge,
        Release, Store, StoreError, StreamClaim, StreamLease, StreamState, StreamStore,
        TransactionalStore, Write, outbox::SharedOutbox,
    },
};
use tokio::{sync::watch, time::timeout};

use crate::bed::PATIENCE;

/// Where a worker dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrashPoint {
    /// Nothing was done. Without a record for each message: before the transaction is opened.
    BeforeClaim,
    /// The handler has not begun.
    AfterClaim,
    /// It has written.
    InHandler,
    /// It has returned.
    BeforeCompletion,
    /// The store has committed, and the worker does not know.
    AfterCompletion,
    /// The worker knows, and the mark is not saved.
    BeforeMark,
    /// The mark is saved, and Kafka was not told.
    AfterMark,
}

/// The end of a worker. Clones are that of the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Crash(Arc<Inside>);

#[derive(Debug, Default)]
struct Inside {
    at: Mutex<Option<CrashPoint>>,
    is_dead: watch::Sender<bool>,
    /// Where its thread waits until this has a sender no more.
    stands_still: Mutex<Option<(CrashPoint, mpsc::Receiver<()>)>>,
}

impl Crash {
    /// From now on the worker dies when it comes to this point.
    pub(crate) fn at(&self, point: CrashPoint) {
        *self.0.at.lock().unwrap() = Some(point);
    }

    /// At this point, the next time, the thread of the worker stands still until what is returned is dropped.
    pub(crate) fn stand_still_at(&self, point: CrashPoint) -> mpsc::Sender<()> {
        let (goes_on, waits) = mpsc::channel();
        *self.0.stands_still.lock().unwrap() = Some((point, waits));
        goes_on
    }

    /// Whether it has come to the point.
    pub(crate) fn stands_still(&self) -> bool {
        self.0.stands_still.lock().unwrap().is_none()
    }

    /// The worker has come to this point, and goes on unless it is to die there.
    pub(crate) async fn reach(&self, point: CrashPoint) {
        self.lives().await;
        let here = self
            .0
            .stands_still
            .lock()
            .unwrap()
            .take_if(|(at, _)| *at == point);
        if let Some((_, waits)) = here {
            // An error is what is awaited.
            let _ = waits.recv();
        }
        if *self.0.at.lock().unwrap() == Some(point) {
            self.0.is_dead.send_replace(true);
        }
        self.lives().await;
    }

    /// Never, once it is dead.
    async fn lives(&self) {
        let is_dead = *self.0.is_dead.borrow();
        if is_dead {
            pending::<()>().await;
        }
    }

    /// Waits until it is dead.
    pub(crate) async fn happens(&self) {
        let mut is_dead = self.0.is_dead.subscribe();
        let died = timeout(PATIENCE, is_dead.wait_for(|is_dead| *is_dead)).await;
        died.expect("it comes to the point").unwrap();
    }
}

/// The store of a worker that is to die.
#[derive(Debug, Clone)]
pub(crate) struct CrashingStore<S> {
    store: S,
    crash: Crash,
}

impl<S> CrashingStore<S> {
    pub(crate) fn new(store: S, crash: Crash) -> Self {
        Self { store, crash }
    }

    /// Who is dead asks nothing, and hears no answer.
    async fn ask<T>(&self, work: impl Future<Output = T>) -> T {
        self.crash.lives().await;
        let answer = work.await;
        self.crash.lives().await;
        answer
    }

    async fn claiming<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.crash.reach(CrashPoint::BeforeClaim).await;
        let claimed = self.ask(work).await?;
        self.crash.reach(CrashPoint::AfterClaim).await;
        Ok(claimed)
    }

    async fn completing<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.crash.reach(CrashPoint::BeforeCompletion).await;
        let completed = self.ask(work).await?;
        self.crash.reach(CrashPoint::AfterCompletion).await;
        Ok(completed)
    }
}

impl<S: Store> Store for CrashingStore<S> {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claiming(self.store.claim(request)).await
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.ask(self.store.extend(lease, by)).await
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        self.completing(self.store.complete(lease, outcome, retention))
            .await
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        self.ask(self.store.release(lease, reason)).await
    }

    fn keeps(&self, kind: PositionKind) -> bool {
        self.store.keeps(kind)
    }
}

impl<S: Purge> Purge for CrashingStore<S> {
    async fn purge(&self, batch: u32) -> Result<u32, StoreError> {
        self.ask(self.store.purge(batch)).await
    }
}

impl<S: StreamStore> StreamStore for CrashingStore<S> {
    async fn claim_stream(
        &self,
        stream: &Key,
        owner: Owner,
        lease: Duration,
    ) -> Result<StreamClaim, StoreError> {
        self.ask(self.store.claim_stream(stream, owner, lease))
            .await
    }

    async fn extend_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Result<Write, StoreError> {
        if mark.is_none() {
            return self.ask(self.store.extend_stream(lease, mark, by)).await;
        }
        self.crash.reach(CrashPoint::BeforeMark).await;
        let saved = self.ask(self.store.extend_stream(lease, mark, by)).await?;
        self.crash.reach(CrashPoint::AfterMark).await;
        Ok(saved)
    }

    async fn release_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
    ) -> Result<Write, StoreError> {
        self.ask(self.store.release_stream(lease, mark)).await
    }

    async fn look_at_stream(&self, stream: &Key) -> Result<Option<StreamState>, StoreError> {
        self.ask(self.store.look_at_stream(stream)).await
    }

    async fn list_streams(&self) -> Result<Vec<(Key, StreamState)>, StoreError> {
        self.ask(self.store.list_streams()).await
    }

    async fn set_mark(&self, stream: &Key, mark: Option<u64>) -> Result<(), StoreError> {
        self.ask(self.store.set_mark(stream, mark)).await
    }
}

impl<Tx, S: TransactionalStore<Tx>> TransactionalStore<Tx> for CrashingStore<S> {
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
        self.claiming(self.store.begin(request)).await
    }

    fn lend(transaction: &mut Self::Transaction) -> &mut Tx {
        S::lend(transaction)
    }

    async fn is_alive(&self, transaction: &mut Self::Transaction) -> bool {
        self.ask(self.store.is_alive(transaction)).await
    }

    async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.ask(self.store.extend_open(lease, by)).await
    }

    async fn open(&self, opening: Open<'_>) -> Result<Self::Transaction, StoreError> {
        self.claiming(self.store.open(opening)).await
    }

    async fn finish(
        &self,
        transaction: Self::Transaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        let work = self.store.finish(transaction, finish);
        match finish {
            Finish::RollBack => self.ask(work).await,
            _ => self.completing(work).await,
        }
    }
}

impl<Tx, S: BatchStore<Tx>> BatchStore<Tx> for CrashingStore<S> {
    const MOVES_MARKS: bool = S::MOVES_MARKS;

    async fn claim_for_batch(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claiming(self.store.claim_for_batch(request)).await
    }
}
