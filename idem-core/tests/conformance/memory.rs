//! `MemoryStore`, driven by tokio's paused clock.

use std::time::Duration;

use idem_core::MemoryStore;
use idem_testing::conformance::{Clock, Harness};

pub(crate) struct MemoryHarness(MemoryStore);

impl Harness for MemoryHarness {
    type Store = MemoryStore;
    const CLOCK: Clock = Clock::Paused;

    async fn start() -> Self {
        Self(MemoryStore::new())
    }

    fn store(&self) -> MemoryStore {
        self.0.clone()
    }

    async fn advance(&self, by: Duration) {
        Clock::advance_paused(by).await;
    }
}
