//! Any store behind `AnyStore`.

use std::{pin::Pin, time::Duration};

use idem_core::AnyStore;
use idem_testing::conformance::{Clock, DurableHarness, Harness, WorkerClockHarness};

/// The store of another harness, without its type.
pub(crate) struct AnyHarness<H>(H);

impl<H: Harness<Store: Into<AnyStore>>> Harness for AnyHarness<H> {
    type Store = AnyStore;
    const CLOCK: Clock = H::CLOCK;

    async fn start() -> Self {
        Self(H::start().await)
    }

    fn store(&self) -> AnyStore {
        self.0.store().into()
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by).await;
    }

    fn block_on(case: Pin<Box<dyn Future<Output = ()> + '_>>) {
        H::block_on(case);
    }
}

impl<H: DurableHarness + Harness<Store: Into<AnyStore>>> DurableHarness for AnyHarness<H> {
    async fn reopen(&self) {
        self.0.reopen().await;
    }
}

impl<H: WorkerClockHarness + Harness<Store: Into<AnyStore>>> WorkerClockHarness for AnyHarness<H> {}
