//! `SqliteStore` in a file of its own, opened twice, as by two processes.

use std::{
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use idem_core::{
    SqliteStore,
    sqlx::{Connection as _, Executor as _, SqliteConnection, query, query_scalar},
};
use idem_testing::conformance::{DurableHarness, Harness, TransactionalHarness};
use tempfile::TempDir;

const NO_PANIC: &str = "nothing panics under the lock";

/// Runs the cases, and lends connections.
pub(crate) struct SqliteHarness {
    stores: Mutex<[SqliteStore; 2]>,
    advanced: Mutex<Duration>,
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
            stores: Mutex::new(stores),
            advanced: Mutex::new(Duration::ZERO),
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

impl DurableHarness for SqliteHarness {
    async fn reopen(&self) {
        let stores = [open(&self.folder).await, open(&self.folder).await];
        for store in &stores {
            store.advance(*self.advanced.lock().expect(NO_PANIC));
        }
        *self.stores.lock().expect(NO_PANIC) = stores;
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
        committed.expect_err("nobody commits but the store");
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
