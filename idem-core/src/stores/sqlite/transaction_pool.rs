//! Connections for atomic handlers, and what must be true of one before it is lent again.
//!
//! `atomic` takes one here, and gives it back when it has committed. What must stay true:
//!
//! - Whoever has a permit finds a connection.
//! - Nothing that a handler writes is committed unless the store allows it.
//! - A connection that a handler has left in another state is set back or closed.

use std::{
    mem,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
};

use sqlx::{
    ConnectOptions as _, Connection, Sqlite, SqliteConnection, SqlitePool, Transaction,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
};

use crate::{
    store::StoreError,
    stores::early_claims::{ClaimPermit, EarlyClaims},
};

/// Takes no lock, and reads nothing. The savepoint is there to be missed if the handler ends the transaction.
const BEGIN: &str = "BEGIN DEFERRED; SAVEPOINT idem_handler";

/// A pool that makes callers wait as long as it takes: handlers that take their time are no reason
/// to call the store unavailable. Clones are the same pool.
#[derive(Clone)]
pub(super) struct TransactionPool {
    /// One permit for each connection. The driver's own queue would give up after a time-out.
    permits: Arc<Semaphore>,
    /// Who may claim before there is a connection.
    early_claims: EarlyClaims,
    pool: SqlitePool,
    begun: Arc<ReadyTransactions>,
}

/// A transaction in which nothing has happened yet, or a handler's. Dropping it rolls back.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) transaction: Transaction<'static, Sqlite>,
    pub(super) commit: CommitHook,
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
            // Twice as many as other stores allow: short handlers go one after the other, so connections come back
            // one by one, and few claims would share a commit.
            early_claims: EarlyClaims::of(2 * connections as usize),
            pool,
            begun: Arc::new(ReadyTransactions {
                open: Mutex::default(),
                runtime: Handle::current(),
            }),
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

    /// Whether all connections are in use. Then a message claims early, and waits for a connection afterwards.
    pub(super) fn is_busy(&self) -> bool {
        self.permits.available_permits() == 0
    }

    /// Whether a handler has a connection now.
    pub(super) fn is_in_use(&self) -> bool {
        self.permits.available_permits() < self.connections()
    }

    /// Waits until one more message may claim before there is a connection for it.
    pub(super) async fn permit_to_claim(&self) -> ClaimPermit {
        self.early_claims.permit().await
    }

    /// A transaction that cannot be committed before that is allowed: one that was given back, or a new one.
    ///
    /// # Cancel safety
    /// Dropped, it loses no connection.
    pub(super) async fn begin(&self) -> Result<Open, StoreError> {
        if let Some(open) = self.begun.lock().pop() {
            return Ok(open);
        }
        let pool = self.pool.clone();
        // On a task of its own, because beginning a transaction must not be cancelled half-way.
        tokio::spawn(begin(pool))
            .await
            .map_err(StoreError::unavailable)?
            .map_err(StoreError::unavailable)
    }

    /// Keeps a transaction for the next handler. Nothing may have happened in it.
    pub(super) fn give_back(&self, open: Open) {
        self.begun.lock().push(open);
    }
}

/// sqlx rolls the transaction back where a nested one is dropped, and what a handler writes
/// after that would be committed at once, statement by statement. The hook turns each such
/// commit into a rollback, also of a statement that the handler has abandoned and that is carried out when the store
/// is about to commit.
async fn begin(pool: SqlitePool) -> Result<Open, sqlx::Error> {
    let mut transaction = pool.begin_with(BEGIN).await?;
    let commit = CommitHook::default();
    let (asked, ended) = (commit.clone(), commit.clone());
    // Set anew, with a state of its own: the connection's last one may still say "allowed".
    let mut handle = transaction.lock_handle().await?;
    handle.set_commit_hook(move || asked.commits());
    handle.set_rollback_hook(move || ended.rolls_back());
    drop(handle);
    Ok(Open {
        transaction,
        commit,
    })
}

/// Transactions that were begun for handlers to come.
struct ReadyTransactions {
    open: Mutex<Vec<Open>>,
    /// Where their connections are given back to the driver: the store may be dropped elsewhere.
    runtime: Handle,
}

impl ReadyTransactions {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReadyTransactions {
    fn drop(&mut self) {
        let open = mem::take(&mut *self.lock());
        let _runtime = self.runtime.enter();
        drop(open);
    }
}

/// Whether the connection of one transaction may commit: no, until the store says so.
#[derive(Debug, Clone, Default)]
pub(super) struct CommitHook(Arc<AtomicU8>);

impl CommitHook {
    const REFUSES: u8 = 0;
    const ALLOWS: u8 = 1;
    const HAS_ALLOWED: u8 = 2;
    /// The transaction was rolled back, and the store's is there no more: nothing is committed on this connection
    /// before it is set back.
    const ROLLED_BACK: u8 = 3;

    /// Allows one commit, unless there was a rollback. To be called right before the store's own.
    pub(super) fn allow(&self) {
        self.pass(Self::REFUSES, Self::ALLOWS);
    }

    /// Whether a commit was begun since it was allowed. From now on none is.
    pub(super) fn has_allowed(&self) -> bool {
        self.pass(Self::ALLOWS, Self::REFUSES);
        self.pass(Self::HAS_ALLOWED, Self::REFUSES)
    }

    /// What SQLite asks before each commit, when nothing speaks against it any more but the disk.
    fn commits(&self) -> bool {
        self.pass(Self::ALLOWS, Self::HAS_ALLOWED)
    }

    /// What SQLite tells after each rollback of the whole transaction.
    fn rolls_back(&self) {
        // A commit that has failed on its way to the disk is rolled back, too, and nobody knows of it.
        self.pass(Self::REFUSES, Self::ROLLED_BACK);
        self.pass(Self::ALLOWS, Self::ROLLED_BACK);
    }

    /// Passes from one state to another; `false` if it was in a third one.
    fn pass(&self, from: u8, to: u8) -> bool {
        let passed = self
            .0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        passed.is_ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_allowed_once() {
        let hook = CommitHook::default();
        assert!(!hook.commits());
        hook.allow();
        assert!(hook.commits());
        assert!(!hook.commits());
        assert!(hook.has_allowed());
        assert!(!hook.has_allowed());
        hook.allow();
        // Refused before it was asked, by a constraint say: the next commit may be the handler's.
        assert!(!hook.has_allowed());
        assert!(!hook.commits());
    }

    #[test]
    fn nothing_is_committed_after_a_rollback() {
        let hook = CommitHook::default();
        hook.rolls_back();
        hook.allow();
        assert!(!hook.commits());
        assert!(!hook.has_allowed());
        let hook = CommitHook::default();
        hook.allow();
        hook.rolls_back();
        assert!(!hook.commits());
        assert!(!hook.has_allowed());
    }

    #[test]
    fn a_commit_that_the_disk_has_refused_stays_unknown() {
        let hook = CommitHook::default();
        hook.allow();
        assert!(hook.commits());
        hook.rolls_back();
        assert!(hook.has_allowed());
    }
}
