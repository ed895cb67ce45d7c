//! A store in a SQLite file: durable, shared by the processes of one host, no server.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use crate::{
    handler::Outcome,
    message::PositionKind,
    store::{
        Claim, ClaimRequest, ConnectError, Finding, Lease, Purge, Release, Store, StoreError,
        Write, rules::record::Change,
    },
};

mod atomic;
mod batch;
mod builder;
mod call;
mod clock;
mod fault;
mod location;
mod log_sync;
mod operator;
mod outbox;
mod recorded_by;
mod row;
mod schema;
mod sequences;
mod sessions;
mod sql;
mod streams;
#[cfg(test)]
mod tests;
mod transaction_pool;
mod write_queue;
mod writer;

pub use builder::SqliteStoreBuilder;
use call::Call;
use clock::Clock;
use log_sync::LogSync;
use recorded_by::RecordedTables;
use sql::Sql;
use transaction_pool::TransactionPool;
use write_queue::WriteQueue;
use writer::Writer;

/// Remembers keys in a SQLite file. Clones share one connection for writing.
///
/// | | |
/// |---|---|
/// | durability | an answered write survives `kill -9` and a power loss: the write-ahead log is synced first |
/// | processes | any number on one host may share a file; on a network file system they may not |
/// | time | the host's clock |
/// | speed | calls that wait while a commit is under way are committed together, as one; whatever is committed while a sync is under way shares the next one |
/// | atomic handlers | take `&mut SqliteConnection` or `&mut SqliteTransaction<'_>` |
///
/// ```no_run
/// # async fn example() -> Result<(), idem_core::store::ConnectError> {
/// use std::time::Duration;
/// use idem_core::{SqliteStore, store::PurgeTask};
///
/// let store = SqliteStore::connect("orders.db").await?;
/// let purging = PurgeTask::spawn(store.clone(), Duration::from_mins(10));
/// # drop(purging);
/// # Ok(()) }
/// ```
///
/// # Atomic handlers
/// The key is claimed in a commit of its own. Then the handler's transaction begins without a
/// lock, so that a handler that waits for something else stops nobody. SQLite has one write lock:
/// the handler takes it with its first write and holds it until its transaction has ended, and all
/// claims of all workers wait for that, also while its process is stopped. So wait for other
/// services *before* the first write.
/// Let the first statement be a write, too: a transaction that has read and then wants to write
/// is refused if anybody has written meanwhile, which counts as a failed attempt.
///
/// A handler that ends the transaction by itself (`COMMIT`, `ROLLBACK`) has failed. Its `COMMIT` is
/// refused and rolls back, and what it writes after that is refused, too.
///
/// # Reading the file
/// `SELECT * FROM idem_records_readable` in the `sqlite3` shell shows keys, states, attempts,
/// errors, outcomes and times.
#[derive(Clone)]
pub struct SqliteStore {
    writer: Writer,
    pool: TransactionPool,
    write_queue: WriteQueue,
    log: LogSync,
    recorded_tables: RecordedTables,
    sql: Arc<Sql>,
    clock: Clock,
}

impl SqliteStore {
    /// Opens or creates a file, named by its path or as `sqlite:FILE`, and creates the tables.
    ///
    /// # Errors
    /// If the file cannot be opened, or its tables are of another version than this program's.
    ///
    /// # Cancel safety
    /// A dropped call may have created the file and the tables. Call it again.
    pub async fn connect(location: impl AsRef<Path>) -> Result<Self, ConnectError> {
        Self::builder(location).build().await
    }

    /// Starts from the defaults, with a path or `sqlite:FILE`.
    pub fn builder(location: impl AsRef<Path>) -> SqliteStoreBuilder {
        SqliteStoreBuilder::new(location.as_ref())
    }

    /// What can be found out about the file: a [`Finding`] if nobody purges it.
    ///
    /// # Errors
    /// If the store cannot tell.
    pub async fn findings(&self) -> Result<Vec<Finding>, StoreError> {
        Ok(self.unpurged().await?.into_iter().collect())
    }

    /// The statements that create the tables, for those who run their own migrations. Each does
    /// nothing if what it creates is there.
    ///
    /// # Errors
    /// If the table's name cannot be one.
    pub fn schema(table: &str) -> Result<String, ConnectError> {
        Ok(Sql::new(table)?.schema.as_str().to_owned())
    }

    /// Moves this store's clock forward, and that of its clones.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// A claim for a handler that writes in a transaction of this store.
    async fn claim_atomic(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claim_for(request, true).await
    }

    async fn claim_for(
        &self,
        request: &ClaimRequest,
        is_atomic: bool,
    ) -> Result<Claim, StoreError> {
        request.checked_position()?;
        let request = request.clone();
        self.writer
            .call(|reply| Call::Claim {
                request,
                is_atomic,
                reply,
            })
            .await
    }

    async fn write(&self, lease: &Lease, change: Change) -> Result<Write, StoreError> {
        let (key, token) = (lease.key.clone(), lease.token.get());
        self.writer
            .call(|reply| Call::Write {
                key,
                token,
                change,
                reply,
            })
            .await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("file", &self.pool.file())
            .finish_non_exhaustive()
    }
}

impl Store for SqliteStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claim_for(request, false).await
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.write(lease, Change::Extend { by }).await
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        let outcome = outcome.clone();
        self.write(lease, Change::Complete { outcome, retention })
            .await
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        let reason = reason.clone();
        self.write(lease, Change::Release { reason }).await
    }

    fn keeps(&self, kind: PositionKind) -> bool {
        match kind {
            PositionKind::Session | PositionKind::Sequence => true,
        }
    }
}

impl Purge for SqliteStore {
    async fn purge(&self, batch: u32) -> Result<u32, StoreError> {
        self.writer.call(|reply| Call::Purge { batch, reply }).await
    }
}
