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
    order::{ApiError, Charged, OrderPlaced, Receipt, Shop},
};

/// The order worker's table. That it has each order once is for orders that come by both doors.
const CREATE_CHARGES: &str = "
CREATE TABLE IF NOT EXISTS charges (
    order_id     TEXT    NOT NULL,
    customer     TEXT    NOT NULL,
    amount_cents INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    worker       TEXT    NOT NULL,
    charged_at   TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE UNIQUE INDEX IF NOT EXISTS charges_order_id ON charges (order_id)";

async fn charge(
    order: &OrderPlaced,
    attempt: Attempt,
    door: &str,
    db: &mut SqliteConnection,
) -> sqlx::Result<Charged> {
    let inserted = sqlx::query(
        "INSERT INTO charges (order_id, customer, amount_cents, attempt, worker)
         VALUES (?, ?, ?, ?, ?) ON CONFLICT (order_id) DO NOTHING",
    )
    .bind(&order.order_id)
    .bind(&order.customer)
    .bind(order.amount_cents)
    .bind(attempt.number())
    .bind(door)
    .execute(&mut *db)
    .await?;
    if inserted.rows_affected() == 1 {
        return Ok(Charged::Now);
    }
    let amount = sqlx::query_scalar("SELECT amount_cents FROM charges WHERE order_id = ?");
    Ok(Charged::Before(
        amount.bind(&order.order_id).fetch_one(db).await?,
    ))
}

/// By HTTP.
async fn by_request(
    extract::State(shop): extract::State<Shop>,
    Extension(attempt): Extension<Attempt>,
    Tx(mut db): Tx<SqliteConnection>,
    Json(order): Json<OrderPlaced>,
) -> Result<(StatusCode, Json<Receipt>), ApiError> {
    order.validate().map_err(ApiError::invalid)?;
    // The gateway first: SQLite's one write lock is taken by the first write.
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
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    shop.pay(&order).await;
    match charge(&order, attempt, "queue", db).await? {
        Charged::Now => Ok(()),
        Charged::Before(_) => Err(Failed::done_before()),
    }
}

pub(crate) async fn serve(settings: Settings, store_url: &str) -> Result<(), Error> {
    let store = SqliteStore::connect(store_url).await?;
    let mut db = SqliteConnection::connect(store_url).await?;
    sqlx::raw_sql(CREATE_CHARGES).execute(&mut db).await?;
    db.close().await?;
    crate::open::<SqliteConnection, by_message, _>(settings, store, post(by_request)).await
}
