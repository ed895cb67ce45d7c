//! SELECT, INSERT, UPDATE on one connection, each statement a transaction of its own.

use std::{path::Path, time::Duration};

use idem_core::sqlx::{
    self, ConnectOptions, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use tokio::sync::Mutex;

use super::{not_done, not_new};
use crate::{Result, contender::Contender};

#[derive(Debug)]
pub(crate) struct NaiveSqlite(Mutex<SqliteConnection>);

impl NaiveSqlite {
    /// As durable as the store beside it: a write-ahead log, written to disk by each commit.
    pub(crate) async fn open(file: &Path) -> Result<Self> {
        let mut connection = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(5))
            .connect()
            .await?;
        sqlx::raw_sql(
            "CREATE TABLE processed (
                key        TEXT PRIMARY KEY,
                status     TEXT NOT NULL,
                updated_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
            )",
        )
        .execute(&mut connection)
        .await?;
        Ok(Self(Mutex::new(connection)))
    }

    async fn status(&self, name: &str) -> Result<Option<String>> {
        let select = sqlx::query_scalar("SELECT status FROM processed WHERE key = ?");
        let mut connection = self.0.lock().await;
        Ok(select.bind(name).fetch_optional(&mut *connection).await?)
    }

    async fn write(&self, statement: &'static str, name: &str) -> Result<()> {
        let mut connection = self.0.lock().await;
        let write = sqlx::query(statement).bind(name);
        write.execute(&mut *connection).await?;
        Ok(())
    }
}

impl Contender for NaiveSqlite {
    async fn first(&self, name: &str) -> Result<()> {
        if self.status(name).await?.is_some() {
            return Err(not_new(name));
        }
        self.write(
            "INSERT INTO processed (key, status) VALUES (?, 'processing')",
            name,
        )
        .await?;
        self.write(
            "UPDATE processed SET status = 'done', updated_at = CURRENT_TIMESTAMP WHERE key = ?",
            name,
        )
        .await
    }

    async fn again(&self, name: &str) -> Result<()> {
        match self.status(name).await?.as_deref() {
            Some("done") => Ok(()),
            _ => Err(not_done(name)),
        }
    }
}
