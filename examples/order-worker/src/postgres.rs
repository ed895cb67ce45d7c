//! On PostgreSQL: the charge is a row, committed together with the record that it was made.

use idem_amqp::{
    PostgresStore,
    prelude::*,
    sqlx::{self, Connection as _, PgConnection, Row as _},
};
use serde_json::json;

use crate::{
    Error,
    order::{OrderPlaced, Shop},
    settings::Settings,
};

/// Without a unique constraint: that each order is charged once is the worker's doing. The lock is
/// for workers that start at the same time, whom `IF NOT EXISTS` alone does not keep apart. That the table is there is
/// no news.
const CREATE_CHARGES: &str = "
BEGIN;
SET LOCAL client_min_messages = warning;
SELECT pg_advisory_xact_lock(hashtext('charges'));
CREATE TABLE IF NOT EXISTS charges (
    order_id     text        NOT NULL,
    customer     text        NOT NULL,
    amount_cents bigint      NOT NULL,
    attempt      bigint      NOT NULL,
    worker       text        NOT NULL,
    charged_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMIT";

const SELECT_CHARGES: &str = "
SELECT order_id, customer, amount_cents, attempt, worker,
       to_char(charged_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') AS charged_at
FROM charges
ORDER BY charges.charged_at";

/// Atomic: the charge and the record of it commit together.
// The scope is durable: it stands in every key.
#[idempotent(key = "order_id", scope = "orders.charge")]
async fn charge(
    order: OrderPlaced,
    db: &mut PgConnection,
    State(shop): State<Shop>,
    attempt: Attempt,
) -> Result<(), Failed> {
    shop.pay(&order).await?;
    sqlx::query(
        "INSERT INTO charges (order_id, customer, amount_cents, attempt, worker)
         VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(order.order_id)
    .bind(order.customer)
    .bind(order.amount_cents)
    .bind(i64::from(attempt.number()))
    .bind(&*shop.worker)
    .execute(db)
    .await?;
    Ok(())
}

pub(crate) async fn consume(settings: Settings) -> Result<(), Error> {
    let store = PostgresStore::connect(&settings.store_url).await?;
    let mut ledger = PgConnection::connect(&settings.store_url).await?;
    sqlx::raw_sql(CREATE_CHARGES).execute(&mut ledger).await?;
    ledger.close().await?;
    let shop = Shop::new(&settings);
    crate::consume::<charge, _, _>(settings, store, shop).await
}

pub(crate) async fn print_ledger(store_url: &str) -> Result<(), Error> {
    let mut ledger = PgConnection::connect(store_url).await?;
    let rows = sqlx::query(SELECT_CHARGES).fetch_all(&mut ledger).await?;
    for row in rows {
        let charge = json!({
            "order_id": row.try_get::<String, _>("order_id")?,
            "customer": row.try_get::<String, _>("customer")?,
            "amount_cents": row.try_get::<i64, _>("amount_cents")?,
            "attempt": row.try_get::<i64, _>("attempt")?,
            "worker": row.try_get::<String, _>("worker")?,
            "charged_at": row.try_get::<String, _>("charged_at")?,
        });
        println!("{charge}");
    }
    Ok(())
}
