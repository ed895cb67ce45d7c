//! `SqliteStore` in a file of its own, opened twice, as by two processes.

use std::{error::Error, path::PathBuf, time::Duration};

use idem_core::{
    SqliteStore,
    sqlx::{Connection as _, Executor as _, SqliteConnection, query, query_scalar},
};
use idem_testing::conformance::{DurableHarness, EntityHarness, Harness, TransactionalHarness};
use tempfile::TempDir;

use super::twice::Twice;

/// Runs the cases, and lends connections.
pub(crate) struct SqliteHarness {
    stores: Twice<SqliteStore>,
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
            stores: Twice::of(stores),
            folder,
        };
        let mut connection = harness.connection().await;
        let tables = connection.execute(
            "CREATE TABLE effects (name TEXT NOT NULL);
            CREATE TABLE entities (name TEXT NOT NULL);
            CREATE UNIQUE INDEX entities_name_key ON entities (name)",
        );
        tables.await.expect("the file is new");
        harness
    }

    fn store(&self) -> SqliteStore {
        self.stores.next()
    }

    async fn advance(&self, by: Duration) {
        self.stores.advance(by, SqliteStore::advance);
    }
}

impl DurableHarness for SqliteHarness {
    async fn reopen(&self) {
        let stores = [open(&self.folder).await, open(&self.folder).await];
        self.stores.reopen(stores, SqliteStore::advance);
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

impl EntityHarness for SqliteHarness {
    const CONSTRAINT: &'static str = "entities_name_key";

    async fn insert_entity(
        tx: &mut SqliteConnection,
        name: &str,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let insert = query("INSERT INTO entities (name) VALUES (?)").bind(name);
        Ok(insert.execute(tx).await.map(drop)?)
    }
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("idem.db")
}

async fn open(folder: &TempDir) -> SqliteStore {
    let store = SqliteStore::connect(file(folder)).await;
    store.expect("the file can be opened")
}
