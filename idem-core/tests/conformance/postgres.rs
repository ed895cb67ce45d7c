//! `PostgresStore` in a schema of its own, opened twice, as by two processes.

use std::{marker::PhantomData, pin::Pin, time::Duration};

use idem_core::PostgresStore;
use idem_testing::conformance::{DurableHarness, Harness, WorkerClockHarness};

use super::{
    postgres_level::Level,
    postgres_pool::{self, Own},
};

/// Runs the cases.
pub(crate) struct PostgresHarness<L> {
    pub(crate) own: Own,
    level: PhantomData<L>,
}

impl<L: Level> Harness for PostgresHarness<L> {
    type Store = PostgresStore;

    async fn start() -> Self {
        Self {
            own: Own::take::<L>().await,
            level: PhantomData,
        }
    }

    fn store(&self) -> PostgresStore {
        self.own.get().stores.next()
    }

    async fn advance(&self, by: Duration) {
        self.own.get().stores.advance(by, PostgresStore::advance);
    }

    fn block_on(case: Pin<Box<dyn Future<Output = ()> + '_>>) {
        postgres_pool::block_on::<L>(case);
    }
}

impl<L: Level> WorkerClockHarness for PostgresHarness<L> {}

impl<L: Level> DurableHarness for PostgresHarness<L> {
    async fn reopen(&self) {
        self.own.get().reopen().await;
    }
}
