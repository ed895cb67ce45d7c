//! `PostgresStore` in a schema of its own, opened twice, as by two processes.

use std::{marker::PhantomData, time::Duration};

use idem_core::PostgresStore;
use idem_testing::conformance::{DurableHarness, Harness, WorkerClockHarness};

use super::{
    postgres_level::{Level, unique},
    twice::Twice,
};

/// Runs the cases.
pub(crate) struct PostgresHarness<L> {
    stores: Twice<PostgresStore>,
    schema: String,
    level: PhantomData<L>,
}

impl<L: Level> Harness for PostgresHarness<L> {
    type Store = PostgresStore;

    async fn start() -> Self {
        let schema = unique("case");
        Self {
            stores: Twice::of([open::<L>(&schema).await, open::<L>(&schema).await]),
            schema,
            level: PhantomData,
        }
    }

    fn store(&self) -> PostgresStore {
        self.stores.next()
    }

    async fn advance(&self, by: Duration) {
        self.stores.advance(by, PostgresStore::advance);
    }
}

impl<L: Level> WorkerClockHarness for PostgresHarness<L> {}

impl<L: Level> DurableHarness for PostgresHarness<L> {
    async fn reopen(&self) {
        let stores = [open::<L>(&self.schema).await, open::<L>(&self.schema).await];
        self.stores.reopen(stores, PostgresStore::advance);
    }
}

async fn open<L: Level>(schema: &str) -> PostgresStore {
    let store = PostgresStore::builder(L::database()).schema(schema).build();
    store.await.expect("the server can be reached")
}
