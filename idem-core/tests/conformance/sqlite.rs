//! `SqliteStore` in a file of its own, opened twice, as by two processes.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use idem_core::{
    SqliteStore,
    conformance::{Harness, TransactionalHarness},
    sqlx::{Connection as _, Executor as _, SqliteConnection, query, query_scalar},
};
use tempfile::TempDir;

/// Runs the cases, and lends connections.
pub(crate) struct SqliteHarness {
    stores: [SqliteStore; 2],
    turn: AtomicUsize,
    folder: TempDir,
}

impl SqliteHarness {
    async fn connection(&self) -> SqliteConnection {
        let file = self.folder.path().join("idem.db");
        let url = format!("sqlite:{}", file.display());
        SqliteConnection::connect(&url).await.unwrap()
    }
}

impl Harness for SqliteHarness {
    type Store = SqliteStore;

    async fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("idem.db");
        let harness = Self {
            stores: [
                SqliteStore::connect(&file).await.unwrap(),
                SqliteStore::connect(&file).await.unwrap(),
            ],
            turn: AtomicUsize::new(0),
            folder,
        };
        let table = "CREATE TABLE effects (name TEXT NOT NULL)";
        harness.connection().await.execute(table).await.unwrap();
        harness
    }

    fn store(&self) -> SqliteStore {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.stores[turn % self.stores.len()].clone()
    }

    async fn advance(&self, by: Duration) {
        for store in &self.stores {
            store.advance(by);
        }
    }
}

impl TransactionalHarness for SqliteHarness {
    type Tx = SqliteConnection;

    async fn write_effect(tx: &mut SqliteConnection, name: &str) {
        let insert = query("INSERT INTO effects (name) VALUES (?)").bind(name);
        insert.execute(tx).await.unwrap();
    }

    async fn roll_back_early(tx: &mut SqliteConnection) {
        tx.execute("ROLLBACK").await.unwrap();
    }

    async fn effects(&self, name: &str) -> u64 {
        let count = query_scalar::<_, i64>("SELECT count(*) FROM effects WHERE name = ?");
        let mut connection = self.connection().await;
        let count = count.bind(name).fetch_one(&mut connection).await.unwrap();
        count.unsigned_abs()
    }
}
