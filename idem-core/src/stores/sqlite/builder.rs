//! Opens the file: options, durability, tables.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use sqlx::{
    ConnectOptions, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use super::{
    Clock, LogSync, RecordedTables, Sql, SqliteStore, TransactionPool, WriteQueue, Writer, fault,
    location,
    schema::{self, MigrateError},
    sql::DEFAULT_TABLE,
    writer,
};
use crate::store::ConnectError;

/// A [`SqliteStore`] in the making.
///
/// | | default | |
/// |---|---|---|
/// | table | `idem_records` | also the beginning of its index's, view's and second table's name |
/// | busy timeout | 10 s | how long a write waits for another process or an atomic handler |
/// | create if missing | yes | whether the file and its tables are created |
/// | connections | 8 | how many atomic handlers run at the same time |
///
/// ```no_run
/// # async fn example() -> Result<(), idem_core::store::ConnectError> {
/// use std::time::Duration;
/// use idem_core::SqliteStore;
///
/// let store = SqliteStore::builder("shop.db")
///     .table("message_keys")
///     .busy_timeout(Duration::from_secs(30))
///     .build()
///     .await?;
/// # drop(store);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct SqliteStoreBuilder {
    location: PathBuf,
    table: String,
    busy_timeout: Duration,
    create_if_missing: bool,
    connections: u32,
}

impl SqliteStoreBuilder {
    pub(super) fn new(location: &Path) -> Self {
        Self {
            location: location.to_owned(),
            table: DEFAULT_TABLE.to_owned(),
            busy_timeout: Duration::from_secs(10),
            create_if_missing: true,
            connections: 8,
        }
    }

    /// The name of the table: 1 to 48 ASCII letters, digits and `_`.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = table.into();
        self
    }

    /// How long a write waits for the lock that another process or an atomic handler holds.
    /// Choose it shorter than the leases.
    pub fn busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.busy_timeout = busy_timeout;
        self
    }

    /// Whether the file and its tables are created if they are not there; `false` is for tools, of which a mistyped
    /// name must not make an empty store. A file without the tables is left as it is.
    pub fn create_if_missing(mut self, create: bool) -> Self {
        self.create_if_missing = create;
        self
    }

    /// How many atomic handlers run at the same time, at least 1. Of those who wait, up to six for each connection have
    /// claimed their key already.
    pub fn connections(mut self, connections: u32) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// Opens the file, and creates it and the tables if they are not there.
    ///
    /// # Errors
    /// If the file cannot be opened, what is not there is not to be created, the table's name cannot be one, or the
    /// tables are of another version than this program's.
    ///
    /// # Cancel safety
    /// A dropped call may have created the file and the tables. Build the store again.
    pub async fn build(self) -> Result<SqliteStore, ConnectError> {
        self.build_with(LogSync::spawn).await
    }

    /// The same with another way to sync the log, for tests.
    pub(super) async fn build_with(
        self,
        sync: impl FnOnce(&Path) -> io::Result<LogSync>,
    ) -> Result<SqliteStore, ConnectError> {
        let sql = Arc::new(Sql::new(&self.table)?);
        // Within SQLite's own limit, which sqlx enforces by a panic.
        let busy_timeout = self.busy_timeout.min(Duration::from_hours(24));
        let options = location::parse(&self.location)?
            .busy_timeout(busy_timeout)
            // The store syncs by itself, once for all who wait.
            .synchronous(SqliteSynchronous::Normal);
        let options = if self.create_if_missing {
            options
        } else {
            let existing = options.create_if_missing(false);
            let found = schema::expect_tables(&existing, &sql, &self.table).await;
            found.map_err(|error| named(error, existing.get_filename()))?;
            existing
        };
        let writing = options
            .clone()
            .journal_mode(SqliteJournalMode::Wal)
            .disable_statement_logging();
        let connection = open(&writing, &sql, busy_timeout).await?;
        let clock = Clock::default();
        let failed = |error: io::Error| {
            let error = MigrateError::Sqlite(error.into());
            named(error, options.get_filename())
        };
        let log = sync(options.get_filename()).map_err(failed)?;
        let write_queue = WriteQueue::new().map_err(failed)?;
        let task = writer::Task::new(
            connection,
            writing,
            Arc::clone(&sql),
            clock.clone(),
            write_queue.clone(),
            log.clone(),
        );
        Ok(SqliteStore {
            writer: Writer::spawn(task),
            write_queue,
            log,
            recorded_tables: RecordedTables::new(),
            pool: TransactionPool::new(options.create_if_missing(false), self.connections),
            sql,
            clock,
        })
    }
}

/// Opens the file and its tables. Several processes that start on a new file at once are in each
/// other's way, and SQLite does not wait where the journal mode changes: so this does.
async fn open(
    options: &SqliteConnectOptions,
    sql: &Sql,
    patience: Duration,
) -> Result<SqliteConnection, ConnectError> {
    let started = Instant::now();
    loop {
        match try_open(options, sql).await {
            Err(MigrateError::Sqlite(error))
                if fault::is_busy(&error) && started.elapsed() < patience =>
            {
                tokio::time::sleep(Duration::from_millis(fastrand::u64(5..50))).await;
            }
            opened => return opened.map_err(|error| named(error, options.get_filename())),
        }
    }
}

async fn try_open(
    options: &SqliteConnectOptions,
    sql: &Sql,
) -> Result<SqliteConnection, MigrateError> {
    let mut connection = options.connect().await?;
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(&mut connection)
        .await?;
    if mode != "wal" {
        return Err(MigrateError::NoWal);
    }
    schema::migrate(&mut connection, sql).await?;
    // What an earlier process has committed and could not sync is in the log, and the kernel counts it as written. This
    // writes it anew, into the database's file, and syncs that.
    sqlx::query("PRAGMA wal_checkpoint(PASSIVE)")
        .execute(&mut connection)
        .await?;
    Ok(connection)
}

/// The error with the file's name, which SQLite leaves out.
fn named(error: MigrateError, path: &Path) -> ConnectError {
    match error {
        MigrateError::Version { found, known } => ConnectError::SchemaVersion { found, known },
        source => ConnectError::Unavailable(Box::new(CannotOpen {
            path: path.to_owned(),
            source,
        })),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{}` cannot be opened", path.display())]
struct CannotOpen {
    path: PathBuf,
    source: MigrateError,
}
