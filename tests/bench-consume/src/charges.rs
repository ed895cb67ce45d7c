//! The business of atomic contestants: one row per order.

use idem_amqp::sqlx::{self, Connection as _, PgConnection};

use crate::{Result, order::Order};

/// The table of charges, looked at from outside.
#[derive(Debug)]
pub(crate) struct Charges(PgConnection);

impl Charges {
    pub(crate) async fn create(url: &str) -> Result<Self> {
        let mut connection = PgConnection::connect(url).await?;
        let table = "CREATE TABLE charges (order_id text NOT NULL, amount_cents bigint NOT NULL)";
        sqlx::raw_sql(table).execute(&mut connection).await?;
        Ok(Self(connection))
    }

    /// Makes sure that so many orders were charged, each once.
    pub(crate) async fn number(mut self, orders: usize) -> Result<()> {
        let count = "SELECT count(*), count(DISTINCT order_id) FROM charges";
        let (rows, distinct): (i64, i64) = sqlx::query_as(count).fetch_one(&mut self.0).await?;
        let orders = i64::try_from(orders)?;
        if (rows, distinct) != (orders, orders) {
            return Err(format!("{rows} charges of {distinct} orders instead of {orders}").into());
        }
        Ok(())
    }
}

/// Charges an order.
pub(crate) async fn charge(db: &mut PgConnection, order: &Order) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
        .bind(&order.id)
        .bind(order.amount_cents)
        .execute(db)
        .await
        .map(drop)
}
