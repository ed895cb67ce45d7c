//! The contract of stores, case by case.

use std::time::Duration;

use custom_store::MapStore;
use idem_testing::conformance::{Clock, Harness};

struct MapHarness(MapStore);

impl Harness for MapHarness {
    type Store = MapStore;
    const CLOCK: Clock = Clock::Paused;

    async fn start() -> Self {
        Self(MapStore::new())
    }

    fn store(&self) -> MapStore {
        self.0.clone()
    }

    async fn advance(&self, by: Duration) {
        Clock::advance_paused(by).await;
    }
}

idem_testing::conformance!(map; MapHarness; Purge);
