//! One transaction per message: the row of the key, the row of business, the commit.

use std::sync::Arc;

use bench_orders::{Order, Tally};
use idem_amqp::sqlx::{self, Connection as _, PgPool, SqliteConnection};
use tokio::sync::Mutex;

use super::{Handle, postgres::pool};
use crate::{Result, charges};

#[derive(Clone, Debug)]
pub(crate) struct HandwrittenPostgres(PgPool);

impl HandwrittenPostgres {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        Ok(Self(pool(url).await?))
    }
}

impl Handle for HandwrittenPostgres {
    async fn handle(&self, order: &Order, tally: &Tally) -> Result<()> {
        let mut transaction = self.0.begin().await?;
        // Waits for the end of a transaction that has inserted the same key.
        let inserted = sqlx::query(
            "INSERT INTO processed (key, status) VALUES ($1, 'done') ON CONFLICT DO NOTHING",
        )
        .bind(&order.id)
        .execute(&mut *transaction)
        .await?;
        if inserted.rows_affected() == 0 {
            return Ok(transaction.rollback().await?);
        }
        charges::charge(&mut transaction, order).await?;
        tally.work().await;
        transaction.commit().await?;
        tally.execute(order);
        Ok(())
    }
}

/// One connection, because SQLite lets one transaction write at a time.
#[derive(Clone, Debug)]
pub(crate) struct HandwrittenSqlite(Arc<Mutex<SqliteConnection>>);

impl HandwrittenSqlite {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let mut connection = charges::sqlite(url).await?;
        sqlx::raw_sql("CREATE TABLE processed (key text PRIMARY KEY, status text NOT NULL)")
            .execute(&mut connection)
            .await?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }
}

impl Handle for HandwrittenSqlite {
    async fn handle(&self, order: &Order, tally: &Tally) -> Result<()> {
        let mut connection = self.0.lock().await;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let inserted = sqlx::query(
            "INSERT INTO processed (key, status) VALUES (?, 'done') ON CONFLICT DO NOTHING",
        )
        .bind(&order.id)
        .execute(&mut *transaction)
        .await?;
        if inserted.rows_affected() == 0 {
            return Ok(transaction.rollback().await?);
        }
        charges::charge_in_file(&mut transaction, order).await?;
        tally.work().await;
        transaction.commit().await?;
        tally.execute(order);
        Ok(())
    }
}
