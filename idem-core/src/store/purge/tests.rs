use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tokio::time::advance;

use super::*;
use crate::{
    handler::{Outcome, Policy},
    message::Key,
    store::{Claim, ClaimRequest, Lease, Release, Store, StoreError, Write},
    stores::MemoryStore,
};

const HOUR: Duration = Duration::from_hours(1);

async fn forget(store: &MemoryStore, keys: u32) {
    for id in 0..keys {
        let request = ClaimRequest::new(Key::new("orders", id).unwrap(), &Policy::DEFAULT);
        let Ok(Claim::Acquired(lease)) = store.claim(&request).await else {
            panic!("the key is free")
        };
        let done = store
            .complete(&lease, &Outcome::default(), Duration::ZERO)
            .await;
        assert_eq!(done.unwrap(), Write::Applied);
    }
}

/// Counts calls, and cannot answer the first.
#[derive(Debug, Clone, Default)]
struct Counting {
    calls: Arc<AtomicU32>,
    inner: MemoryStore,
}

impl Store for Counting {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.inner.claim(request).await
    }
    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.inner.extend(lease, by).await
    }
    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        self.inner.complete(lease, outcome, retention).await
    }
    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        self.inner.release(lease, reason).await
    }
}

impl Purge for Counting {
    async fn purge(&self, batch: u32) -> Result<u32, StoreError> {
        assert!(batch <= 1_000);
        match self.calls.fetch_add(1, Ordering::SeqCst) {
            0 => Err(StoreError::unavailable("away")),
            _ => self.inner.purge(batch).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn everything_forgotten_goes_in_batches_and_an_error_is_tried_again() {
    let store = Counting::default();
    forget(&store.inner, 2_500).await;
    let task = PurgeTask::spawn(store.clone(), HOUR);
    assert_eq!(task.runs().last(), None);
    sleep(HOUR).await;
    assert_eq!(store.calls.load(Ordering::SeqCst), 1);
    let last = task.runs().last().expect("it has tried");
    assert_eq!(last.removed, 0);
    assert_eq!(
        last.error.as_deref(),
        Some("the store is unavailable: away")
    );
    sleep(HOUR).await;
    assert_eq!(store.calls.load(Ordering::SeqCst), 1 + 3);
    assert_eq!(store.inner.purge(1).await.unwrap(), 0);
    let last = task.runs().last().expect("it has purged");
    assert_eq!((last.removed, last.error), (2_500, None));
    assert!(last.ago < HOUR, "{:?}", last.ago);
    drop(task);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_task_purges_no_more() {
    let store = Counting::default();
    drop(PurgeTask::spawn(store.clone(), HOUR));
    advance(10 * HOUR).await;
    yield_now().await;
    assert_eq!(store.calls.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn an_interval_of_zero_does_not_spin() {
    let store = Counting::default();
    let _task = PurgeTask::spawn(store.clone(), Duration::ZERO);
    sleep(Duration::from_millis(2_500)).await;
    assert!(store.calls.load(Ordering::SeqCst) <= 3);
}

#[tokio::test(start_paused = true)]
async fn sessions_that_have_ended_are_removed_batch_after_batch() {
    use crate::store::{OpenSession, Opened};

    const LIFE: Duration = Duration::from_mins(5);
    let store = MemoryStore::new();
    let opening = |id: u32| OpenSession::new(Key::new("leases", id).unwrap()).life(LIFE);
    for id in 0..250 {
        assert_eq!(store.open(&opening(id)).await.unwrap(), Opened::New);
    }
    let task = PurgeTask::spawn_for_sessions(store.clone(), Duration::from_mins(1));
    sleep(LIFE).await;
    assert_eq!(store.open(&opening(0)).await.unwrap(), Opened::Known);
    sleep(LIFE + Duration::from_mins(2)).await;
    for id in 0..250 {
        assert_eq!(store.open(&opening(id)).await.unwrap(), Opened::New, "{id}");
    }
    drop(task);
}
