//! `SqliteStore` again, lending a transaction instead of a connection.

use std::{error::Error, time::Duration};

use idem_core::{
    SqliteStore,
    sqlx::{Sqlite, Transaction},
};
use idem_testing::conformance::{EntityHarness, Harness, TransactionalHarness};

use crate::sqlite_harness::SqliteHarness;

/// Runs the cases, and lends transactions.
pub(crate) struct SqliteTransactionHarness(SqliteHarness);

impl Harness for SqliteTransactionHarness {
    type Store = SqliteStore;

    async fn start() -> Self {
        Self(SqliteHarness::start().await)
    }

    fn store(&self) -> SqliteStore {
        self.0.store()
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by).await;
    }
}

impl TransactionalHarness for SqliteTransactionHarness {
    type Tx = Transaction<'static, Sqlite>;

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
        self.0.effects(name).await
    }
}

impl EntityHarness for SqliteTransactionHarness {
    const CONSTRAINT: &'static str = SqliteHarness::CONSTRAINT;

    async fn insert_entity(
        tx: &mut Self::Tx,
        name: &str,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        SqliteHarness::insert_entity(tx, name).await
    }
}
