//! A store with a table beside its own, for handlers that write in its transaction.

use idem_core::{
    PostgresStore, SqliteStore,
    sqlx::{Connection as _, PgConnection, SqliteConnection, query, query_as},
    store::{Owner, Purge, StreamStore},
};

/// Where handlers write, and what is found there.
pub(crate) trait Books: Sized {
    type Store: StreamStore + Purge + Clone;

    async fn open() -> Self;

    fn store(&self) -> Self::Store;

    /// What was written, in that order.
    async fn written(&mut self) -> Vec<String>;

    /// The keys of which there are records.
    async fn records(&mut self) -> Vec<String>;
}

pub(crate) struct OnPostgres(PostgresStore, pub(crate) PgConnection);
pub(crate) struct OnSqlite(
    SqliteStore,
    SqliteConnection,
    #[expect(dead_code)] tempfile::TempDir,
);

impl OnPostgres {
    pub(crate) async fn at(url: &str) -> Self {
        let mut db = PgConnection::connect(url).await.unwrap();
        let create = "CREATE TABLE IF NOT EXISTS effects (place bigserial, id text NOT NULL)";
        query(create).execute(&mut db).await.unwrap();
        Self(PostgresStore::connect(url).await.unwrap(), db)
    }
}

macro_rules! books {
    ($books:ty, $store:ty, $opened:expr) => {
        impl Books for $books {
            type Store = $store;

            async fn open() -> Self {
                $opened.await
            }

            fn store(&self) -> Self::Store {
                self.0.clone()
            }

            async fn written(&mut self) -> Vec<String> {
                let written = query_as("SELECT id FROM effects ORDER BY place");
                let written: Vec<(String,)> = written.fetch_all(&mut self.1).await.unwrap();
                written.into_iter().map(|(id,)| id).collect()
            }

            async fn records(&mut self) -> Vec<String> {
                let records: Vec<(String,)> = query_as("SELECT key FROM idem_records ORDER BY key")
                    .fetch_all(&mut self.1)
                    .await
                    .unwrap();
                records.into_iter().map(|(key,)| key).collect()
            }
        }
    };
}

books!(OnPostgres, PostgresStore, async {
    let random = u128::from_be_bytes(*Owner::new().as_bytes());
    let server = idem_servers::postgres::shared().expect("PostgreSQL can be started");
    let url = server
        .create_database(&format!("kafka_{random:032x}"))
        .expect("it is a new name");
    Self::at(&url).await
});
books!(OnSqlite, SqliteStore, async {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    let store = SqliteStore::connect(&url).await.unwrap();
    let mut db = SqliteConnection::connect(&url).await.unwrap();
    let create = "CREATE TABLE effects (place INTEGER PRIMARY KEY, id TEXT NOT NULL)";
    query(create).execute(&mut db).await.unwrap();
    Self(store, db, folder)
});

/// A test on each of the two stores for each of these functions.
macro_rules! on_postgres_and_sqlite {
    ($($case:ident),* $(,)?) => {$(
        mod $case {
            use super::*;

            #[tokio::test(flavor = "multi_thread")]
            async fn on_postgres() {
                super::$case(OnPostgres::open().await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_sqlite() {
                super::$case(OnSqlite::open().await).await;
            }
        }
    )*};
}

pub(crate) use on_postgres_and_sqlite;
