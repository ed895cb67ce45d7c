//! Any store behind `Cached`: one cache, because a lease is completed where it was claimed; reopened
//! with a cache that knows nothing, as in a new process.

use std::{error::Error, sync::Mutex, time::Duration};

use idem_core::stores::Cached;
use idem_testing::conformance::{
    Clock, DurableHarness, EntityHarness, Harness, TransactionalHarness, WorkerClockHarness,
};

const NO_PANIC: &str = "nothing panics under the lock";

/// The store of another harness, behind a cache.
pub(crate) struct CachedHarness<H: Harness> {
    behind: H,
    cached: Mutex<Cached<H::Store>>,
}

impl<H: Harness> Harness for CachedHarness<H> {
    type Store = Cached<H::Store>;
    const CLOCK: Clock = H::CLOCK;

    async fn start() -> Self {
        let behind = H::start().await;
        let cached = Mutex::new(Cached::new(behind.store()));
        Self { behind, cached }
    }

    fn store(&self) -> Cached<H::Store> {
        self.cached.lock().expect(NO_PANIC).clone()
    }

    async fn advance(&self, by: Duration) {
        self.behind.advance(by).await;
        // The cache's own clock is tokio's.
        if H::CLOCK == Clock::Running {
            self.store().advance(by);
        }
    }
}

impl<H: DurableHarness> DurableHarness for CachedHarness<H> {
    async fn reopen(&self) {
        self.behind.reopen().await;
        *self.cached.lock().expect(NO_PANIC) = Cached::new(self.behind.store());
    }
}

impl<H: WorkerClockHarness> WorkerClockHarness for CachedHarness<H> {}

impl<H: TransactionalHarness> TransactionalHarness for CachedHarness<H> {
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

impl<H: EntityHarness> EntityHarness for CachedHarness<H> {
    const CONSTRAINT: &'static str = H::CONSTRAINT;

    async fn insert_entity(
        tx: &mut Self::Tx,
        name: &str,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        H::insert_entity(tx, name).await
    }
}
