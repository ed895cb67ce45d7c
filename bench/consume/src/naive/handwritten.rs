//! One transaction per message: the row of the key, the row of business, the commit.

use bench_orders::{Order, Tally};
use idem_amqp::sqlx::{self, PgPool};

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
        transaction.commit().await?;
        tally.execute(order);
        Ok(())
    }
}
