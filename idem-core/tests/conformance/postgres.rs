//! `PostgresStore` in a schema of its own, opened twice, as by two processes.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use idem_core::{
    Owner, PostgresStore,
    conformance::{DurableHarness, Harness},
};
use xtask::services::postgres;

const NO_PANIC: &str = "nothing panics under the lock";

/// Runs the cases.
pub(crate) struct PostgresHarness {
    stores: Mutex<[PostgresStore; 2]>,
    advanced: Mutex<Duration>,
    turn: AtomicUsize,
    schema: String,
}

impl Harness for PostgresHarness {
    type Store = PostgresStore;

    async fn start() -> Self {
        let schema = format!("case_{:x}", u128::from_be_bytes(*Owner::new().as_bytes()));
        Self {
            stores: Mutex::new([open(&schema).await, open(&schema).await]),
            advanced: Mutex::new(Duration::ZERO),
            turn: AtomicUsize::new(0),
            schema,
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

impl DurableHarness for PostgresHarness {
    async fn reopen(&self) {
        let stores = [open(&self.schema).await, open(&self.schema).await];
        for store in &stores {
            store.advance(*self.advanced.lock().expect(NO_PANIC));
        }
        *self.stores.lock().expect(NO_PANIC) = stores;
    }
}

async fn open(schema: &str) -> PostgresStore {
    let server = postgres::shared().expect("PostgreSQL can be started");
    let store = PostgresStore::builder(&server.url()).schema(schema).build();
    store.await.expect("the server can be reached")
}
