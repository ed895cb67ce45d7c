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
    order::{ApiError, Charged, OrderPlaced, Receipt, Shop, Tenant},
};

/// The order worker's table, and one that has each order once, whichever way it comes. The lock is for services that
/// start at the same time, whom `IF NOT EXISTS` alone does not keep apart.
const CREATE_TABLES: &str = "
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
CREATE TABLE IF NOT EXISTS charged_orders (
    tenant       text   NOT NULL,
    order_id     text   NOT NULL,
    amount_cents bigint NOT NULL,
    PRIMARY KEY (tenant, order_id)
);
COMMIT";

async fn charge(
    order: &OrderPlaced,
    tenant: &Tenant,
    attempt: Attempt,
    door: &str,
    db: &mut PgConnection,
) -> sqlx::Result<Charged> {
    let new = sqlx::query(
        "INSERT INTO charged_orders (tenant, order_id, amount_cents) VALUES ($1, $2, $3)
         ON CONFLICT DO NOTHING",
    )
    .bind(tenant.as_str())
    .bind(&order.order_id)
    .bind(order.amount_cents)
    .execute(&mut *db)
    .await?;
    if new.rows_affected() == 0 {
        let amount = sqlx::query_scalar(
            "SELECT amount_cents FROM charged_orders WHERE tenant = $1 AND order_id = $2",
        );
        let amount = amount.bind(tenant.as_str()).bind(&order.order_id);
        return Ok(Charged::Before(amount.fetch_one(db).await?));
    }
    sqlx::query(
        "INSERT INTO charges (order_id, customer, amount_cents, attempt, worker)
         VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(&order.order_id)
    .bind(&order.customer)
    .bind(order.amount_cents)
    .bind(i64::from(attempt.number()))
    .bind(door)
    .execute(db)
    .await?;
    Ok(Charged::Now)
}

/// By HTTP.
async fn by_request(
    extract::State(shop): extract::State<Shop>,
    tenant: Tenant,
    Extension(attempt): Extension<Attempt>,
    Tx(mut db): Tx<PgConnection>,
    Json(order): Json<OrderPlaced>,
) -> Result<(StatusCode, Json<Receipt>), ApiError> {
    order.validate().map_err(ApiError::invalid)?;
    shop.pay(&order).await;
    let charged = charge(&order, &tenant, attempt, "http", db.as_mut()).await?;
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
    match charge(&order, &Tenant::none(), attempt, "queue", db).await? {
        Charged::Now => Ok(()),
        Charged::Before(_) => Err(Failed::done_before()),
    }
}

pub(crate) async fn serve(settings: Settings, store_url: &str) -> Result<(), Error> {
    let store = PostgresStore::connect(store_url).await?;
    let mut db = PgConnection::connect(store_url).await?;
    sqlx::raw_sql(CREATE_TABLES).execute(&mut db).await?;
    db.close().await?;
    crate::open::<PgConnection, by_message, _>(settings, store, post(by_request)).await
}
