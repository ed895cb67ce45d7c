//! Connections for atomic handlers, and what must be true of one before it is lent again.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use sqlx::{
    ConnectOptions as _, Connection, Sqlite, SqliteConnection, SqlitePool, Transaction,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::store::StoreError;

/// A pool that makes callers wait as long as it takes: handlers that take their time are no
/// reason to call the store unavailable.
#[derive(Clone)]
pub(super) struct TransactionPool {
    permits: Arc<Semaphore>,
    pool: SqlitePool,
}

impl TransactionPool {
    pub(super) fn new(options: SqliteConnectOptions, connections: u32) -> Self {
        let pool = SqlitePoolOptions::new()
            .max_connections(connections)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .after_release(|connection, _| Box::pin(clean(connection)))
            .connect_lazy_with(options);
        Self {
            permits: Arc::new(Semaphore::new(connections as usize)),
            pool,
        }
    }

    pub(super) fn file(&self) -> PathBuf {
        self.pool.connect_options().get_filename().to_owned()
    }

    /// A connection of the caller's own.
    pub(super) async fn connect(&self) -> Result<SqliteConnection, sqlx::Error> {
        self.pool.connect_options().connect().await
    }

    /// How many there are at most.
    pub(super) fn connections(&self) -> usize {
        self.pool.options().get_max_connections() as usize
    }

    /// Waits for a permit, first come, first served. Whoever has one finds a connection.
    pub(super) async fn permit(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed")
    }

    /// Nothing on its connection is committed before that is allowed: sqlx rolls the transaction back where a
    /// nested one is dropped, and what a handler writes after that would be committed at once.
    pub(super) async fn begin(
        &self,
        statement: &'static str,
    ) -> Result<(Transaction<'static, Sqlite>, MayCommit), StoreError> {
        let begun = self.pool.begin_with(statement).await;
        let mut transaction = begun.map_err(StoreError::unavailable)?;
        let may_commit = MayCommit::default();
        let asked = may_commit.clone();
        let handle = transaction.lock_handle().await;
        let mut handle = handle.map_err(StoreError::unavailable)?;
        handle.set_commit_hook(move || asked.0.load(Ordering::Acquire));
        drop(handle);
        Ok((transaction, may_commit))
    }
}

/// Whether the connection of one transaction may commit.
#[derive(Debug, Clone, Default)]
pub(super) struct MayCommit(Arc<AtomicBool>);

impl MayCommit {
    /// From now on, until the connection is lent again.
    pub(super) fn allow(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Whether a connection may be lent again; if not, the pool closes it, which rolls back.
async fn clean(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    if connection.is_in_transaction() {
        return Ok(false);
    }
    sqlx::raw_sql(include_str!("reset.sql"))
        .execute(&mut *connection)
        .await?;
    let further: i64 =
        sqlx::query_scalar("SELECT count(*) FROM pragma_database_list WHERE name <> 'main'")
            .fetch_one(connection)
            .await?;
    Ok(further == 0)
}
