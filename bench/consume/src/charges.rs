//! The business of atomic contestants: one row per order.

use bench_driver::consume::Contestant;
use bench_orders::{Options, Order};
use idem_amqp::sqlx::{self, Connection as _, PgConnection};

use crate::Result;

/// The table of charges, looked at from outside.
#[derive(Debug)]
pub(crate) struct Charges(PgConnection);

impl Charges {
    /// A new table, if the contestant is one that charges.
    pub(crate) async fn of(options: &Options) -> Result<Option<Self>> {
        if !matches!(
            options.contestant,
            Contestant::HandwrittenPostgresAtomic
                | Contestant::IdemPostgresAtomic
                | Contestant::IdemPostgresGrouped
        ) {
            return Ok(None);
        }
        let mut connection = PgConnection::connect(options.store_url()?).await?;
        let table = "CREATE TABLE charges (order_id text NOT NULL, amount_cents bigint NOT NULL)";
        sqlx::raw_sql(table).execute(&mut connection).await?;
        Ok(Some(Self(connection)))
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
