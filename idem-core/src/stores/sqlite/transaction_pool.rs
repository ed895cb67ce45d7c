//! Connections for atomic handlers, and what must be true of one before it is lent again.
//!
//! `atomic` takes a permit and begins a transaction here. What must stay true: whoever has a permit
//! finds a connection; nothing that a handler writes is committed unless the store allows it; a
//! connection that a handler has left in another state is set back or closed.

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

/// A pool that makes callers wait as long as it takes: handlers that take their time are no reason
/// to call the store unavailable. Clones are the same pool.
#[derive(Clone)]
pub(super) struct TransactionPool {
    /// As many as there are connections. The driver's own queue would give up after a time-out.
    permits: Arc<Semaphore>,
    pool: SqlitePool,
}

impl TransactionPool {
    /// Opens no connection before one is needed.
    pub(super) fn new(options: SqliteConnectOptions, connections: u32) -> Self {
        let pool = SqlitePoolOptions::new()
            .max_connections(connections)
            // A connection to a file does not go stale, and costs time to open: it is kept.
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

    /// The database's file.
    pub(super) fn file(&self) -> PathBuf {
        self.pool.connect_options().get_filename().to_owned()
    }

    /// A connection of the caller's own, beside those of the pool.
    pub(super) async fn connect(&self) -> Result<SqliteConnection, sqlx::Error> {
        self.pool.connect_options().connect().await
    }

    /// How many handlers can have a transaction at the same time.
    pub(super) fn connections(&self) -> usize {
        self.pool.options().get_max_connections() as usize
    }

    /// Waits for a permit, first come, first served. Whoever has one finds a connection.
    ///
    /// # Cancel safety
    /// Dropped while it waits, it takes none.
    pub(super) async fn permit(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed")
    }

    /// Begins a transaction that cannot be committed before that is allowed.
    ///
    /// sqlx rolls the transaction back where a nested one is dropped, and what a handler writes
    /// after that would be committed at once, statement by statement. The hook turns each such
    /// commit into a rollback.
    ///
    /// # Cancel safety
    /// Not to be dropped half way: `atomic` awaits it in a task of its own.
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
        // Set anew for each transaction, with a flag of its own: the last one's may still say
        // "allowed".
        handle.set_commit_hook(move || asked.0.load(Ordering::Acquire));
        drop(handle);
        Ok((transaction, may_commit))
    }
}

/// Whether the connection of one transaction may commit: no, until the store says so.
#[derive(Debug, Clone, Default)]
pub(super) struct MayCommit(Arc<AtomicBool>);

impl MayCommit {
    /// Allows it, until the connection is lent again. To be called right before the store's own
    /// commit.
    pub(super) fn allow(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Whether a connection may be lent again, once it is set back. If not, the pool closes it, which
/// rolls back.
async fn clean(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    // The driver's own rollback has not come through.
    if connection.is_in_transaction() {
        return Ok(false);
    }
    // Begins a transaction, too: that fails if the handler has opened one behind the driver's back.
    sqlx::raw_sql(include_str!("reset.sql"))
        .execute(&mut *connection)
        .await?;
    // A handler may have attached another database, or made temporary tables: the next one must not
    // find them.
    let further: i64 =
        sqlx::query_scalar("SELECT count(*) FROM pragma_database_list WHERE name <> 'main'")
            .fetch_one(connection)
            .await?;
    Ok(further == 0)
}
