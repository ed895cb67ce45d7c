//! A SQLite store on a temporary file, for atomic handlers.

use std::{
    env::temp_dir,
    fs::{create_dir, remove_dir_all},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use idem_core::sqlx::{
    self, ConnectOptions as _, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions},
};

use idem_core::{
    store::{TransactionalStore, outbox::SharedOutbox},
    stores::SqliteStore,
};

use super::{
    super::clock::StandingStill,
    FaultyStore, Ground,
    database::{Database, LONGEST_ACQUIRE},
    sealed,
};

/// A [`SqliteStore`] on a temporary file, which is gone with the last harness on it.
#[derive(Debug, Clone)]
pub struct OnSqlite {
    store: FaultyStore<SqliteStore>,
    file: Arc<File>,
    schema: Arc<str>,
}

#[derive(Debug)]
struct File(PathBuf);

const TABLE: &str = "idem_records";
/// Of the application's own pool.
const CONNECTIONS: u32 = 4;
/// On Linux; and quick, because nothing is written to a disk.
const IN_MEMORY: &str = "/dev/shm";
/// On the host's clock.
const LONGEST_OPENING: Duration = Duration::from_secs(30);

impl OnSqlite {
    /// On a new file, with these tables of the application's.
    ///
    /// # Panics
    /// If the file cannot be written, or SQLite does not understand the schema.
    pub(in super::super) async fn new(schema: Arc<str>) -> Self {
        let file = Arc::new(File::new());
        let mut connection = file.connect().await;
        let created = sqlx::raw_sql(sqlx::AssertSqlSafe(schema.to_string()));
        if let Err(error) = created.execute(&mut connection).await {
            panic!("SQLite does not take the schema: {error}");
        }
        Self {
            store: open(&file, TABLE).await,
            file,
            schema,
        }
    }

    /// A connection of the test's own, which sees what is committed.
    ///
    /// # Panics
    /// If the file cannot be opened.
    pub async fn database(&self) -> Database<SqliteConnection> {
        Database::opened(self.file.connect()).await
    }

    /// How the application opens this database: for a pool with options of its own, made without waiting
    /// (`connect_lazy_with`).
    pub fn connect_options(&self) -> SqliteConnectOptions {
        self.file.options()
    }

    /// A pool for the application's state, of 4 connections to this database. It connects when it is used first.
    ///
    /// It is for handlers: tokio's paused clock stands still while they wait for it, and goes on while a test does. A
    /// test reads by [`database`](Self::database). SQLite has one writer at a time: who writes by a pool beside the
    /// transaction of an atomic handler waits for himself.
    pub fn pool(&self) -> SqlitePool {
        SqlitePoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(LONGEST_ACQUIRE)
            .connect_lazy_with(self.connect_options())
    }
}

impl sealed::Ground for OnSqlite {}

impl Ground for OnSqlite {
    type Store = SqliteStore;

    fn store(&self) -> &FaultyStore<SqliteStore> {
        &self.store
    }

    async fn fresh(&self) -> Self {
        let fresh = Self::new(Arc::clone(&self.schema)).await;
        fresh.with_patience(self.store.patience())
    }

    async fn forgetful(&self) -> Self {
        let another_table = format!("idem_{}", crate::unique_name());
        Self {
            store: open(&self.file, &another_table).await,
            ..self.clone()
        }
        .with_patience(self.store.patience())
    }

    fn with_patience(self, patience: Option<Duration>) -> Self {
        let store = self.store.with_patience(patience);
        Self { store, ..self }
    }

    fn outbox(&self) -> Option<SharedOutbox> {
        TransactionalStore::<SqliteConnection>::outbox(&self.store)
    }
}

async fn open(file: &File, table: &str) -> FaultyStore<SqliteStore> {
    let _still = StandingStill::for_at_most(LONGEST_OPENING);
    let opened = SqliteStore::builder(file.path()).table(table).build().await;
    match opened {
        Ok(store) => FaultyStore::with_own_clock(store, SqliteStore::advance),
        Err(error) => panic!("the SQLite store cannot be opened: {error}"),
    }
}

impl File {
    /// In memory, where the system has files there: nothing is to outlive the test.
    fn new() -> Self {
        let name = format!("idem-testing-{}", crate::unique_name());
        let in_memory = Path::new(IN_MEMORY).join(&name);
        if create_dir(&in_memory).is_ok() {
            return Self(in_memory);
        }
        let folder = temp_dir().join(name);
        match create_dir(&folder) {
            Ok(()) => Self(folder),
            Err(error) => panic!("`{}` cannot be created: {error}", folder.display()),
        }
    }

    fn path(&self) -> PathBuf {
        self.0.join("test.db")
    }

    fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new()
            .filename(self.path())
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
    }

    async fn connect(&self) -> SqliteConnection {
        let _still = StandingStill::for_at_most(LONGEST_OPENING);
        match self.options().connect().await {
            Ok(connection) => connection,
            Err(error) => panic!("`{}` cannot be opened: {error}", self.0.display()),
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // What cannot be removed is a temporary file all the same.
        let _ = remove_dir_all(&self.0);
    }
}
