//! On PostgreSQL: the charge is a row, committed together with the record of its request or message.

use axum::{Extension, Json, extract, http::StatusCode, routing::post};
use idem_amqp::{
    PostgresStore,
    prelude::*,
    sqlx::{self, Connection as _, PgConnection},
};
use idem_http::Tx;

use crate::{
    Error, Settings,
    order::{ApiError, Charged, OrderPlaced, Receipt, Shop},
};

/// The order worker's table. That it has each order once is for orders that come by both doors. The lock is for
/// services that start at the same time, whom `IF NOT EXISTS` alone does not keep apart.
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
CREATE UNIQUE INDEX IF NOT EXISTS charges_order_id ON charges (order_id);
COMMIT";

async fn charge(
    order: &OrderPlaced,
    attempt: Attempt,
    door: &str,
    db: &mut PgConnection,
) -> sqlx::Result<Charged> {
    let inserted = sqlx::query(
        "INSERT INTO charges (order_id, customer, amount_cents, attempt, worker)
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT (order_id) DO NOTHING",
    )
    .bind(&order.order_id)
    .bind(&order.customer)
    .bind(order.amount_cents)
    .bind(i64::from(attempt.number()))
    .bind(door)
    .execute(&mut *db)
    .await?;
    if inserted.rows_affected() == 1 {
        return Ok(Charged::Now);
    }
    let amount = sqlx::query_scalar("SELECT amount_cents FROM charges WHERE order_id = $1");
    Ok(Charged::Before(
        amount.bind(&order.order_id).fetch_one(db).await?,
    ))
}

/// By HTTP.
async fn by_request(
    extract::State(shop): extract::State<Shop>,
    Extension(attempt): Extension<Attempt>,
    Tx(mut db): Tx<PgConnection>,
    Json(order): Json<OrderPlaced>,
) -> Result<(StatusCode, Json<Receipt>), ApiError> {
    order.validate().map_err(ApiError::invalid)?;
    shop.pay(&order).await;
    let charged = charge(&order, attempt, "http", db.as_mut()).await?;
    order.answer(&charged)
}

/// By the queue.
#[idempotent(key = "order_id", scope = "orders.charge", validate = OrderPlaced::validate)]
async fn by_message(
    order: OrderPlaced,
    State(shop): State<Shop>,
    attempt: Attempt,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    shop.pay(&order).await;
    match charge(&order, attempt, "queue", db).await? {
        Charged::Now => Ok(()),
        Charged::Before(_) => Err(Failed::done_before()),
    }
}

pub(crate) async fn serve(settings: Settings, store_url: &str) -> Result<(), Error> {
    let store = PostgresStore::connect(store_url).await?;
    let mut db = PgConnection::connect(store_url).await?;
    sqlx::raw_sql(CREATE_CHARGES).execute(&mut db).await?;
    db.close().await?;
    crate::open::<PgConnection, by_message, _>(settings, store, post(by_request)).await
}
