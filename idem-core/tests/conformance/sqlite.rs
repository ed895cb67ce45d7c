//! `SqliteStore` in a file of its own, opened twice, as by two processes.

use std::{
    path::PathBuf,
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
        let url = format!("sqlite:{}", file(&self.folder).display());
        let connection = SqliteConnection::connect(&url).await;
        connection.expect("the file is there")
    }
}

impl Harness for SqliteHarness {
    type Store = SqliteStore;

    async fn start() -> Self {
        let folder = TempDir::new().expect("a folder can be made");
        let stores = [open(&folder).await, open(&folder).await];
        let harness = Self {
            stores,
            turn: AtomicUsize::new(0),
            folder,
        };
        let mut connection = harness.connection().await;
        let table = connection.execute("CREATE TABLE effects (name TEXT NOT NULL)");
        table.await.expect("the file is new");
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
        insert.execute(tx).await.expect("a row can be written");
    }

    async fn roll_back_early(tx: &mut SqliteConnection) {
        let rolled_back = tx.execute("ROLLBACK").await;
        rolled_back.expect("a transaction is open");
    }

    async fn commit_early(tx: &mut SqliteConnection) {
        let committed = tx.execute("COMMIT").await;
        committed.expect("a transaction is open");
    }

    async fn swallow_an_error(tx: &mut SqliteConnection) {
        let refused = tx.execute("INSERT INTO effects (name) VALUES (NULL)");
        refused.await.expect_err("an effect has a name");
    }

    async fn effects(&self, name: &str) -> u64 {
        let count = query_scalar::<_, i64>("SELECT count(*) FROM effects WHERE name = ?");
        let mut connection = self.connection().await;
        let count = count.bind(name).fetch_one(&mut connection).await;
        count.expect("the table can be read").unsigned_abs()
    }
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("idem.db")
}

async fn open(folder: &TempDir) -> SqliteStore {
    let store = SqliteStore::connect(file(folder)).await;
    store.expect("the file can be opened")
}
