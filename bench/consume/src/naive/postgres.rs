//! SELECT, INSERT, UPDATE on a pool of connections, each statement a transaction of its own.

use bench_orders::{Order, Tally};
use idem_amqp::sqlx::{self, PgPool, postgres::PgPoolOptions};

use super::Handle;
use crate::Result;

const CONNECTIONS: u32 = 16;

#[derive(Clone, Debug)]
pub(crate) struct NaivePostgres(PgPool);

impl NaivePostgres {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        Ok(Self(pool(url).await?))
    }
}

/// Connections to a database that knows which keys were processed.
pub(super) async fn pool(url: &str) -> Result<PgPool> {
    let pool = PgPoolOptions::new()
        .min_connections(CONNECTIONS)
        .max_connections(CONNECTIONS)
        // As it is in most programs that are written for speed.
        .test_before_acquire(false)
        .connect(url)
        .await?;
    sqlx::raw_sql(
        "CREATE TABLE processed (
            key        text PRIMARY KEY,
            status     text NOT NULL,
            updated_at timestamptz NOT NULL DEFAULT now()
        )",
    )
    .execute(&pool)
    .await?;
    Ok(pool)
}

impl Handle for NaivePostgres {
    async fn handle(&self, order: &Order, tally: &Tally) -> Result<()> {
        let status: Option<String> =
            sqlx::query_scalar("SELECT status FROM processed WHERE key = $1")
                .bind(&order.id)
                .fetch_optional(&self.0)
                .await?;
        if status.is_some() {
            return Ok(());
        }
        let inserted = sqlx::query(
            "INSERT INTO processed (key, status) VALUES ($1, 'processing') ON CONFLICT DO NOTHING",
        )
        .bind(&order.id)
        .execute(&self.0)
        .await?;
        if inserted.rows_affected() == 0 {
            return Ok(());
        }
        tally.work().await;
        tally.execute(order);
        sqlx::query("UPDATE processed SET status = 'done', updated_at = now() WHERE key = $1")
            .bind(&order.id)
            .execute(&self.0)
            .await?;
        Ok(())
    }
}
