//! The stores that layers are tried on.

use idem_core::{MemoryStore, Store};

/// How long servers may take to answer: longer than a busy machine may stall a process, and than any request of these
/// tests waits for a connection.
#[cfg(any(feature = "postgres", feature = "redis"))]
const RESPONSE: std::time::Duration = std::time::Duration::from_secs(20);

/// A store of a test's own.
pub(crate) trait TestStore: Send + 'static {
    type Store: Store + Clone;

    /// An empty one.
    async fn open() -> Self;

    fn store(&self) -> Self::Store;
}

pub(crate) struct Memory(MemoryStore);

impl TestStore for Memory {
    type Store = MemoryStore;

    async fn open() -> Self {
        Self(MemoryStore::new())
    }

    fn store(&self) -> MemoryStore {
        self.0.clone()
    }
}

#[cfg(feature = "sqlite")]
pub(crate) struct Sqlite {
    store: idem_core::SqliteStore,
    file: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

#[cfg(feature = "sqlite")]
impl TestStore for Sqlite {
    type Store = idem_core::SqliteStore;

    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("idem.db");
        Self {
            store: idem_core::SqliteStore::connect(&file).await.unwrap(),
            file,
            _folder: folder,
        }
    }

    fn store(&self) -> Self::Store {
        self.store.clone()
    }
}

#[cfg(feature = "sqlite")]
impl Sqlite {
    /// Changes the database, as nobody should.
    pub(crate) async fn execute(&self, sql: &'static str) {
        use idem_core::sqlx::{Connection as _, SqliteConnection, query};
        let url = format!("sqlite:{}", self.file.display());
        let mut db = SqliteConnection::connect(&url).await.unwrap();
        query(sql).execute(&mut db).await.unwrap();
        db.close().await.unwrap();
    }
}

#[cfg(feature = "postgres")]
pub(crate) struct Postgres {
    store: idem_core::PostgresStore,
    url: String,
}

#[cfg(feature = "postgres")]
impl TestStore for Postgres {
    type Store = idem_core::PostgresStore;

    async fn open() -> Self {
        let server = idem_servers::postgres::shared().expect("PostgreSQL can be started");
        let url = server.create_database(&name()).expect("it is a new name");
        Self {
            store: idem_core::PostgresStore::connect(&url).await.unwrap(),
            url,
        }
    }

    fn store(&self) -> Self::Store {
        self.store.clone()
    }
}

#[cfg(feature = "redis")]
pub(crate) struct Redis(idem_core::RedisStore);

#[cfg(feature = "redis")]
impl TestStore for Redis {
    type Store = idem_core::RedisStore;

    async fn open() -> Self {
        let server = idem_servers::redis::shared().expect("Redis can be started");
        let store = idem_core::RedisStore::builder(&server.url())
            .prefix(name())
            .connect_timeout(RESPONSE)
            .response_timeout(RESPONSE);
        Self(store.build().await.unwrap())
    }

    fn store(&self) -> Self::Store {
        self.0.clone()
    }
}

#[cfg(any(feature = "postgres", feature = "redis"))]
fn name() -> String {
    let random = u128::from_be_bytes(*idem_core::store::Owner::new().as_bytes());
    format!("http_{random:032x}")
}

/// Where a handler that is given a transaction writes, and what is found there afterwards.
pub(crate) trait Ledger: TestStore {
    type Connection: Send + 'static;

    /// Makes the table.
    async fn create(&self);

    /// The store with one connection for handlers.
    async fn with_one_connection(&self) -> Self::Store;

    fn write(db: &mut Self::Connection, id: &str) -> impl Future<Output = ()> + Send;

    /// What is committed.
    async fn written(&self) -> Vec<String>;
}

const CREATE: &str = "CREATE TABLE charges (id TEXT NOT NULL)";
const READ: &str = "SELECT id FROM charges ORDER BY id";

macro_rules! ledger {
    ($store:ty, $connection:ident, $url:expr, $builder:expr, $insert:literal) => {
        impl Ledger for $store {
            type Connection = idem_core::sqlx::$connection;

            async fn create(&self) {
                use idem_core::sqlx::{Connection as _, query};
                let mut db = Self::Connection::connect(&$url(self)).await.unwrap();
                query(CREATE).execute(&mut db).await.unwrap();
                db.close().await.unwrap();
            }

            async fn with_one_connection(&self) -> Self::Store {
                let store = $builder(self).connections(1).build();
                store.await.unwrap()
            }

            async fn write(db: &mut Self::Connection, id: &str) {
                let insert = idem_core::sqlx::query($insert);
                insert.bind(id).execute(db).await.unwrap();
            }

            async fn written(&self) -> Vec<String> {
                use idem_core::sqlx::{Connection as _, query_scalar};
                let mut db = Self::Connection::connect(&$url(self)).await.unwrap();
                let written = query_scalar(READ).fetch_all(&mut db).await.unwrap();
                db.close().await.unwrap();
                written
            }
        }
    };
}

#[cfg(feature = "sqlite")]
ledger!(
    Sqlite,
    SqliteConnection,
    |it: &Self| format!("sqlite:{}", it.file.display()),
    |it: &Self| idem_core::SqliteStore::builder(&it.file),
    "INSERT INTO charges (id) VALUES (?)"
);
#[cfg(feature = "postgres")]
ledger!(
    Postgres,
    PgConnection,
    |it: &Self| it.url.clone(),
    |it: &Self| idem_core::PostgresStore::builder(&it.url).response_timeout(RESPONSE),
    "INSERT INTO charges (id) VALUES ($1)"
);

/// Makes a test of each function, for each store.
macro_rules! on_each_store {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_memory() {
                super::$name::<$crate::stores::Memory>().await;
            }

            #[cfg(feature = "sqlite")]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                super::$name::<$crate::stores::Sqlite>().await;
            }

            #[cfg(feature = "postgres")]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                super::$name::<$crate::stores::Postgres>().await;
            }

            #[cfg(feature = "redis")]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_redis() {
                super::$name::<$crate::stores::Redis>().await;
            }
        })*
    };
}

/// The same for stores with transactions.
macro_rules! on_each_database {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            #[cfg(feature = "sqlite")]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                super::$name::<$crate::stores::Sqlite>().await;
            }

            #[cfg(feature = "postgres")]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                super::$name::<$crate::stores::Postgres>().await;
            }
        })*
    };
}

pub(crate) use {on_each_database, on_each_store};
