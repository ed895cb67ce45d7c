//! On SQLite: the charge is a row, committed together with the record of its request or message.

use axum::{Extension, Json, extract, http::StatusCode, routing::post};
use idem_amqp::{
    SqliteStore,
    prelude::*,
    sqlx::{self, Connection as _, SqliteConnection},
};
use idem_http::Tx;

use crate::{
    Error, Settings,
    order::{ApiError, Charged, OrderPlaced, Receipt, Shop, Tenant},
};

/// The order worker's table, and one that has each order once, whichever way it comes.
const CREATE_TABLES: &str = "
CREATE TABLE IF NOT EXISTS charges (
    order_id     TEXT    NOT NULL,
    customer     TEXT    NOT NULL,
    amount_cents INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    worker       TEXT    NOT NULL,
    charged_at   TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE TABLE IF NOT EXISTS charged_orders (
    tenant       TEXT    NOT NULL,
    order_id     TEXT    NOT NULL,
    amount_cents INTEGER NOT NULL,
    PRIMARY KEY (tenant, order_id)
)";

async fn charge(
    order: &OrderPlaced,
    tenant: &Tenant,
    attempt: Attempt,
    door: &str,
    db: &mut SqliteConnection,
) -> sqlx::Result<Charged> {
    let new = sqlx::query(
        "INSERT INTO charged_orders (tenant, order_id, amount_cents) VALUES (?, ?, ?)
         ON CONFLICT DO NOTHING",
    )
    .bind(tenant.as_str())
    .bind(&order.order_id)
    .bind(order.amount_cents)
    .execute(&mut *db)
    .await?;
    if new.rows_affected() == 0 {
        let amount = sqlx::query_scalar(
            "SELECT amount_cents FROM charged_orders WHERE tenant = ? AND order_id = ?",
        );
        let amount = amount.bind(tenant.as_str()).bind(&order.order_id);
        return Ok(Charged::Before(amount.fetch_one(db).await?));
    }
    sqlx::query(
        "INSERT INTO charges (order_id, customer, amount_cents, attempt, worker)
         VALUES (?, ?, ?, ?, ?)",
    )
    .bind(&order.order_id)
    .bind(&order.customer)
    .bind(order.amount_cents)
    .bind(attempt.number())
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
    Tx(mut db): Tx<SqliteConnection>,
    Json(order): Json<OrderPlaced>,
) -> Result<(StatusCode, Json<Receipt>), ApiError> {
    order.validate().map_err(ApiError::invalid)?;
    // The gateway first: SQLite's one write lock is taken by the first write.
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
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    shop.pay(&order).await;
    match charge(&order, &Tenant::none(), attempt, "queue", db).await? {
        Charged::Now => Ok(()),
        Charged::Before(_) => Err(Failed::done_before()),
    }
}

pub(crate) async fn serve(settings: Settings, store_url: &str) -> Result<(), Error> {
    let store = SqliteStore::connect(store_url).await?;
    let mut db = SqliteConnection::connect(store_url).await?;
    sqlx::raw_sql(CREATE_TABLES).execute(&mut db).await?;
    db.close().await?;
    crate::open::<SqliteConnection, by_message, _>(settings, store, post(by_request)).await
}
