//! `Cached<SqliteStore>`: one cache, because a lease is completed where it was claimed; reopened
//! with a cache that knows nothing, as in a new process.

use std::{sync::Mutex, time::Duration};

use idem_core::{
    Cached, SqliteStore,
    conformance::{DurableHarness, Harness, TransactionalHarness},
    sqlx::SqliteConnection,
};

use crate::sqlite_harness::SqliteHarness;

const NO_PANIC: &str = "nothing panics under the lock";

pub(crate) struct CachedSqliteHarness {
    sqlite: SqliteHarness,
    cached: Mutex<Cached<SqliteStore>>,
}

impl Harness for CachedSqliteHarness {
    type Store = Cached<SqliteStore>;

    async fn start() -> Self {
        let sqlite = SqliteHarness::start().await;
        let cached = Mutex::new(Cached::new(sqlite.store()));
        Self { sqlite, cached }
    }

    fn store(&self) -> Cached<SqliteStore> {
        self.cached.lock().expect(NO_PANIC).clone()
    }

    async fn advance(&self, by: Duration) {
        self.sqlite.advance(by).await;
        self.cached.lock().expect(NO_PANIC).advance(by);
    }
}

impl DurableHarness for CachedSqliteHarness {
    async fn reopen(&self) {
        self.sqlite.reopen().await;
        *self.cached.lock().expect(NO_PANIC) = Cached::new(self.sqlite.store());
    }
}

impl TransactionalHarness for CachedSqliteHarness {
    type Tx = SqliteConnection;

    async fn write_effect(tx: &mut Self::Tx, name: &str) {
        SqliteHarness::write_effect(tx, name).await;
    }

    async fn roll_back_early(tx: &mut Self::Tx) {
        SqliteHarness::roll_back_early(tx).await;
    }

    async fn commit_early(tx: &mut Self::Tx) {
        SqliteHarness::commit_early(tx).await;
    }

    async fn swallow_an_error(tx: &mut Self::Tx) {
        SqliteHarness::swallow_an_error(tx).await;
    }

    async fn effects(&self, name: &str) -> u64 {
        self.sqlite.effects(name).await
    }
}
