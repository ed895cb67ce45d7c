//! An outbox by hand: a row beside the row of business, and a task that polls for rows.

use std::time::Duration;

use bench_orders::{Order, Tally};
use idem_amqp::sqlx::{self, PgPool};
use lapin::{
    BasicProperties, Channel,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use tokio::time::sleep;

use super::{Handle, postgres::pool};
use crate::{Result, charges, events};

const PERSISTENT: u8 = 2;
/// How many rows a transaction of the polling task takes.
const AT_ONCE: i64 = 100;
/// How long it waits when there was nothing.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub(crate) struct HandwrittenOutbox(PgPool);

impl HandwrittenOutbox {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let pool = pool(url).await?;
        sqlx::raw_sql("CREATE TABLE outbox (id bigserial PRIMARY KEY, order_id text NOT NULL)")
            .execute(&pool)
            .await?;
        Ok(Self(pool))
    }

    /// Writes so many rows.
    pub(crate) async fn fill(&self, rows: usize) -> Result<()> {
        sqlx::query(
            "INSERT INTO outbox (order_id) SELECT 'order-' || n FROM generate_series(1, $1) AS n",
        )
        .bind(i64::try_from(rows)?)
        .execute(&self.0)
        .await?;
        Ok(())
    }

    /// Publishes what is in the table, until so many are published.
    pub(crate) async fn publish(&self, channel: &Channel, mut rows: usize) -> Result<()> {
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        while rows > 0 {
            let published = self.publish_some(channel).await?;
            rows = rows.saturating_sub(published);
            if published == 0 {
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    async fn publish_some(&self, channel: &Channel) -> Result<usize> {
        let mut transaction = self.0.begin().await?;
        let rows: Vec<(i64, String)> = sqlx::query_as(
            "SELECT id, order_id FROM outbox ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED",
        )
        .bind(AT_ONCE)
        .fetch_all(&mut *transaction)
        .await?;
        for (_, order_id) in &rows {
            let body = serde_json::to_vec(order_id)?;
            let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
            let options = BasicPublishOptions::default();
            let sent =
                channel.basic_publish("".into(), events::QUEUE.into(), options, &body, properties);
            let confirmed = sent.await?.await?;
            if !confirmed.is_ack() {
                return Err("the broker has refused an event".into());
            }
        }
        let ids: Vec<_> = rows.iter().map(|(id, _)| *id).collect();
        sqlx::query("DELETE FROM outbox WHERE id = ANY ($1)")
            .bind(ids)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(rows.len())
    }
}

impl Handle for HandwrittenOutbox {
    async fn handle(&self, order: &Order, tally: &Tally) -> Result<()> {
        let mut transaction = self.0.begin().await?;
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
        sqlx::query("INSERT INTO outbox (order_id) VALUES ($1)")
            .bind(&order.id)
            .execute(&mut *transaction)
            .await?;
        tally.published(order);
        transaction.commit().await?;
        tally.execute(order);
        Ok(())
    }
}
