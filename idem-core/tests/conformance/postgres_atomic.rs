//! `PostgresStore` lending connections and transactions, in databases of each isolation level.

use std::{error::Error, pin::Pin, time::Duration};

use idem_core::{
    PostgresStore,
    sqlx::{Executor as _, PgConnection, PgTransaction, query, query_scalar},
};
use idem_testing::conformance::{EntityHarness, Harness, TransactionalHarness};

use super::{postgres_harness::PostgresHarness, postgres_level::Level};

impl<L: Level> TransactionalHarness for PostgresHarness<L> {
    type Tx = PgConnection;

    async fn write_effect(tx: &mut PgConnection, name: &str) {
        let insert = query("INSERT INTO effects (name) VALUES ($1)").bind(name);
        insert
            .execute(&mut *tx)
            .await
            .expect("a row can be written");
        let level = query_scalar::<_, String>("SHOW transaction_isolation");
        let level = level.fetch_one(tx).await.expect("there is one");
        assert_eq!(level, L::NAME, "the cases are about this level");
    }

    async fn roll_back_early(tx: &mut PgConnection) {
        let rolled_back = tx.execute("ROLLBACK").await;
        rolled_back.expect("a transaction is open");
    }

    async fn commit_early(tx: &mut PgConnection) {
        let committed = tx.execute("COMMIT").await;
        committed.expect("a transaction is open");
    }

    async fn swallow_an_error(tx: &mut PgConnection) {
        let refused = tx.execute("INSERT INTO effects (name) VALUES (NULL)");
        refused.await.expect_err("an effect has a name");
    }

    async fn effects(&self, name: &str) -> u64 {
        let count = query_scalar::<_, i64>("SELECT count(*) FROM effects WHERE name = $1");
        let mut bystander = self.own.get().bystander.lock().await;
        let count = count.bind(name).fetch_one(&mut *bystander).await;
        count.expect("the table can be read").unsigned_abs()
    }
}

impl<L: Level> EntityHarness for PostgresHarness<L> {
    const CONSTRAINT: &'static str = "entities_name_key";

    async fn insert_entity(
        tx: &mut PgConnection,
        name: &str,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let insert = query("INSERT INTO entities (name) VALUES ($1)").bind(name);
        Ok(insert.execute(tx).await.map(drop)?)
    }
}

/// Runs the cases, and lends transactions.
pub(crate) struct TransactionHarness<L>(PostgresHarness<L>);

impl<L: Level> Harness for TransactionHarness<L> {
    type Store = PostgresStore;

    async fn start() -> Self {
        Self(PostgresHarness::start().await)
    }

    fn store(&self) -> PostgresStore {
        self.0.store()
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by).await;
    }

    fn block_on(case: Pin<Box<dyn Future<Output = ()> + '_>>) {
        PostgresHarness::<L>::block_on(case);
    }
}

impl<L: Level> TransactionalHarness for TransactionHarness<L> {
    type Tx = PgTransaction<'static>;

    async fn write_effect(tx: &mut Self::Tx, name: &str) {
        PostgresHarness::<L>::write_effect(tx, name).await;
    }

    async fn roll_back_early(tx: &mut Self::Tx) {
        PostgresHarness::<L>::roll_back_early(tx).await;
    }

    async fn commit_early(tx: &mut Self::Tx) {
        PostgresHarness::<L>::commit_early(tx).await;
    }

    async fn swallow_an_error(tx: &mut Self::Tx) {
        PostgresHarness::<L>::swallow_an_error(tx).await;
    }

    async fn effects(&self, name: &str) -> u64 {
        self.0.effects(name).await
    }
}

impl<L: Level> EntityHarness for TransactionHarness<L> {
    const CONSTRAINT: &'static str = PostgresHarness::<L>::CONSTRAINT;

    async fn insert_entity(
        tx: &mut Self::Tx,
        name: &str,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        PostgresHarness::<L>::insert_entity(tx, name).await
    }
}
