//! `Cached<MemoryStore>`, both driven by tokio's paused clock.

use std::time::Duration;

use idem_core::{
    Cached, MemoryStore,
    conformance::{Clock, Harness},
};

pub(crate) struct CachedMemoryHarness(Cached<MemoryStore>);

impl Harness for CachedMemoryHarness {
    type Store = Cached<MemoryStore>;
    const CLOCK: Clock = Clock::Paused;

    async fn start() -> Self {
        Self(Cached::new(MemoryStore::new()))
    }

    fn store(&self) -> Cached<MemoryStore> {
        self.0.clone()
    }

    async fn advance(&self, by: Duration) {
        Clock::advance_paused(by).await;
    }
}
