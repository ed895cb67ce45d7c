//! Any store behind `Cached`: one cache, because a lease is completed where it was claimed; reopened
//! with a cache that knows nothing, as in a new process, or with the one in Redis that all know.

use std::{error::Error, pin::Pin, sync::Mutex, time::Duration};

use idem_core::{Store, stores::Cached};
use idem_testing::conformance::{
    Clock, DurableHarness, EntityHarness, Harness, TransactionalHarness, WorkerClockHarness,
};

const NO_PANIC: &str = "nothing panics under the lock";

/// The store of another harness, behind a cache.
pub(crate) struct CachedHarness<H: Harness, W = Own> {
    behind: H,
    cached: Mutex<Cached<H::Store>>,
    known: W,
}

/// Where completed keys are known.
pub(crate) trait Where: Send + Sync + 'static {
    fn create() -> impl Future<Output = Self> + Send;
    fn cache<S: Store>(&self, store: S) -> Cached<S>;
    fn advance(&self, by: Duration);
}

/// In the process.
pub(crate) struct Own;

impl Where for Own {
    async fn create() -> Self {
        Self
    }

    fn cache<S: Store>(&self, store: S) -> Cached<S> {
        Cached::new(store)
    }

    fn advance(&self, _: Duration) {}
}

impl<H: Harness, W: Where> Harness for CachedHarness<H, W> {
    type Store = Cached<H::Store>;
    const CLOCK: Clock = H::CLOCK;

    async fn start() -> Self {
        let behind = H::start().await;
        let known = W::create().await;
        let cached = Mutex::new(known.cache(behind.store()));
        Self {
            behind,
            cached,
            known,
        }
    }

    fn store(&self) -> Cached<H::Store> {
        self.cached.lock().expect(NO_PANIC).clone()
    }

    async fn advance(&self, by: Duration) {
        self.behind.advance(by).await;
        self.known.advance(by);
        // The cache's own clock is tokio's.
        if H::CLOCK == Clock::Running {
            self.store().advance(by);
        }
    }

    fn block_on(case: Pin<Box<dyn Future<Output = ()> + '_>>) {
        H::block_on(case);
    }
}

impl<H: DurableHarness, W: Where> DurableHarness for CachedHarness<H, W> {
    async fn reopen(&self) {
        self.behind.reopen().await;
        *self.cached.lock().expect(NO_PANIC) = self.known.cache(self.behind.store());
    }
}

impl<H: WorkerClockHarness, W: Where> WorkerClockHarness for CachedHarness<H, W> {}

impl<H: TransactionalHarness, W: Where> TransactionalHarness for CachedHarness<H, W> {
    type Tx = H::Tx;

    async fn write_effect(tx: &mut Self::Tx, name: &str) {
        H::write_effect(tx, name).await;
    }

    async fn roll_back_early(tx: &mut Self::Tx) {
        H::roll_back_early(tx).await;
    }

    async fn commit_early(tx: &mut Self::Tx) {
        H::commit_early(tx).await;
    }

    async fn swallow_an_error(tx: &mut Self::Tx) {
        H::swallow_an_error(tx).await;
    }

    async fn effects(&self, name: &str) -> u64 {
        self.behind.effects(name).await
    }
}

impl<H: EntityHarness, W: Where> EntityHarness for CachedHarness<H, W> {
    const CONSTRAINT: &'static str = H::CONSTRAINT;

    async fn insert_entity(
        tx: &mut Self::Tx,
        name: &str,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        H::insert_entity(tx, name).await
    }
}
