//! `PostgresStore` in a schema of its own, opened twice, as by two processes.

use std::{
    marker::PhantomData,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use idem_core::PostgresStore;
use idem_testing::conformance::{DurableHarness, Harness, WorkerClockHarness};

use crate::postgres_level::{Level, unique};

const NO_PANIC: &str = "nothing panics under the lock";

/// Runs the cases.
pub(crate) struct PostgresHarness<L> {
    stores: Mutex<[PostgresStore; 2]>,
    advanced: Mutex<Duration>,
    turn: AtomicUsize,
    schema: String,
    level: PhantomData<L>,
}

impl<L: Level> Harness for PostgresHarness<L> {
    type Store = PostgresStore;

    async fn start() -> Self {
        let schema = unique("case");
        Self {
            stores: Mutex::new([open::<L>(&schema).await, open::<L>(&schema).await]),
            advanced: Mutex::new(Duration::ZERO),
            turn: AtomicUsize::new(0),
            schema,
            level: PhantomData,
        }
    }

    fn store(&self) -> PostgresStore {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let stores = self.stores.lock().expect(NO_PANIC);
        stores[turn % stores.len()].clone()
    }

    async fn advance(&self, by: Duration) {
        for store in &*self.stores.lock().expect(NO_PANIC) {
            store.advance(by);
        }
        *self.advanced.lock().expect(NO_PANIC) += by;
    }
}

impl<L: Level> WorkerClockHarness for PostgresHarness<L> {}

impl<L: Level> DurableHarness for PostgresHarness<L> {
    async fn reopen(&self) {
        let stores = [open::<L>(&self.schema).await, open::<L>(&self.schema).await];
        for store in &stores {
            store.advance(*self.advanced.lock().expect(NO_PANIC));
        }
        *self.stores.lock().expect(NO_PANIC) = stores;
    }
}

async fn open<L: Level>(schema: &str) -> PostgresStore {
    let store = PostgresStore::builder(L::database()).schema(schema).build();
    store.await.expect("the server can be reached")
}
