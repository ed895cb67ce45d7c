//! On SQLite: the charge is a row, committed together with the record that it was made.

use std::str::FromStr as _;

use idem_amqp::{
    SqliteStore,
    prelude::*,
    sqlx::{self, Connection as _, Row as _, SqliteConnection, sqlite::SqliteConnectOptions},
};
use serde_json::json;

use crate::{
    Error,
    order::{OrderPlaced, Shop},
    settings::Settings,
};

/// Without a unique constraint: that each order is charged once is the worker's doing.
const CREATE_CHARGES: &str = "CREATE TABLE IF NOT EXISTS charges (
    order_id     TEXT    NOT NULL,
    customer     TEXT    NOT NULL,
    amount_cents INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    worker       TEXT    NOT NULL,
    charged_at   TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
)";

/// Atomic: the charge and the record of it commit together.
// The scope is durable: it stands in every key.
#[idempotent(key = "order_id", scope = "orders.charge")]
async fn charge(
    order: OrderPlaced,
    db: &mut SqliteConnection,
    State(shop): State<Shop>,
    attempt: Attempt,
) -> Result<(), Failed> {
    // The gateway first: SQLite's one write lock is taken by the first write.
    shop.pay(&order).await?;
    sqlx::query(
        "INSERT INTO charges (order_id, customer, amount_cents, attempt, worker)
         VALUES (?, ?, ?, ?, ?)",
    )
    .bind(order.order_id)
    .bind(order.customer)
    .bind(order.amount_cents)
    .bind(attempt.number())
    .bind(&*shop.worker)
    .execute(db)
    .await?;
    Ok(())
}

pub(crate) async fn consume(settings: Settings) -> Result<(), Error> {
    let store = SqliteStore::connect(&settings.store_url).await?;
    let mut ledger = open(&settings.store_url).await?;
    sqlx::query(CREATE_CHARGES).execute(&mut ledger).await?;
    ledger.close().await?;
    let shop = Shop::new(&settings);
    crate::consume::<charge, _, _>(settings, store, shop).await
}

pub(crate) async fn print_ledger(store_url: &str) -> Result<(), Error> {
    let mut ledger = open(store_url).await?;
    let rows = sqlx::query("SELECT * FROM charges ORDER BY charged_at")
        .fetch_all(&mut ledger)
        .await?;
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

async fn open(store_url: &str) -> Result<SqliteConnection, Error> {
    let options = SqliteConnectOptions::from_str(store_url)?.create_if_missing(false);
    Ok(SqliteConnection::connect_with(&options).await?)
}
