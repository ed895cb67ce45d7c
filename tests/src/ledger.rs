//! The charges that worker processes made, in the SQLite file that is their store, too.

use std::path::{Path, PathBuf};

use idem_amqp::sqlx::{
    self, ConnectOptions, Connection, Row, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};
use tempfile::TempDir;

/// A row of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The order's id.
    pub order_id: String,
    /// Which attempt wrote it.
    pub attempt: u32,
    /// Which worker wrote it.
    pub worker: String,
}

/// A ledger of one test's own.
#[derive(Debug)]
pub struct Ledger {
    folder: TempDir,
}

impl Ledger {
    /// An empty ledger, without a unique constraint: what is charged twice is there twice.
    pub async fn create() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ledger = Self { folder };
        let mut connection = open(&ledger.path()).await;
        sqlx::raw_sql("CREATE TABLE charges (order_id TEXT, attempt INTEGER, worker TEXT)")
            .execute(&mut connection)
            .await
            .expect("a new table");
        connection.close().await.expect("an open connection");
        ledger
    }

    /// The SQLite file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("ledger.db")
    }

    /// A path in the ledger's folder, which goes away with it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// All charges.
    pub async fn charges(&self) -> Vec<Charge> {
        let mut connection = open(&self.path()).await;
        let rows = sqlx::query("SELECT order_id, attempt, worker FROM charges ORDER BY rowid")
            .fetch_all(&mut connection)
            .await
            .expect("the ledger can be read");
        let charges = rows.iter().map(|row| Charge {
            order_id: row.get("order_id"),
            attempt: row.get("attempt"),
            worker: row.get("worker"),
        });
        charges.collect()
    }

    /// How many charges there are.
    pub async fn count(&self) -> usize {
        self.charges().await.len()
    }
}

/// Opens the file as every worker does.
pub async fn open(path: &Path) -> SqliteConnection {
    options(path).connect().await.expect("a SQLite file")
}

/// How the file is opened.
pub fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(std::time::Duration::from_secs(10))
}

/// Writes a charge.
///
/// # Errors
/// If SQLite does.
pub async fn charge(
    db: &mut SqliteConnection,
    order_id: &str,
    attempt: u32,
    worker: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO charges (order_id, attempt, worker) VALUES (?, ?, ?)")
        .bind(order_id)
        .bind(attempt)
        .bind(worker)
        .execute(db)
        .await?;
    Ok(())
}
