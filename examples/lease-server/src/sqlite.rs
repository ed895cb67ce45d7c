//! On SQLite: the lease is a row, committed together with the answer to its request.

use std::str::FromStr as _;

use idem_amqp::{
    Refused, SqliteStore,
    prelude::*,
    sqlx::{self, Connection as _, Row as _, SqliteConnection, sqlite::SqliteConnectOptions},
};
use lease_contract::{CreateLease, Lease, LeaseError};
use serde_json::json;

use crate::Error;

const CREATE_LEASES: &str = "CREATE TABLE IF NOT EXISTS leases (
    id     INTEGER NOT NULL PRIMARY KEY,
    name   TEXT    NOT NULL UNIQUE,
    holder TEXT    NOT NULL
)";

/// Not idempotent by itself: a second run would find the name taken, by its own client.
// The scope is durable: it stands in every key.
#[idempotent(key = message_id(), scope = "leases.create")]
async fn create_lease(
    request: CreateLease,
    db: &mut SqliteConnection,
) -> Result<Lease, Refused<LeaseError>> {
    // A write first: what is read after it is not outdated when it is committed.
    let granted: Option<i64> = sqlx::query_scalar(
        "INSERT INTO leases (name, holder) VALUES (?, ?) ON CONFLICT (name) DO NOTHING RETURNING id",
    )
    .bind(&request.name)
    .bind(&request.holder)
    .fetch_optional(&mut *db)
    .await?;
    if let Some(id) = granted {
        return Ok(Lease { id });
    }
    let by = sqlx::query_scalar("SELECT holder FROM leases WHERE name = ?")
        .bind(&request.name)
        .fetch_one(db)
        .await?;
    Err(Refused::with(LeaseError::Taken { by }))
}

pub(crate) async fn serve(store_url: &str) -> Result<(), Error> {
    let store = SqliteStore::connect(store_url).await?;
    let mut ledger = open(store_url).await?;
    sqlx::query(CREATE_LEASES).execute(&mut ledger).await?;
    ledger.close().await?;
    crate::serve::<create_lease, _>(store).await
}

pub(crate) async fn print_ledger(store_url: &str) -> Result<(), Error> {
    let mut ledger = open(store_url).await?;
    let rows = sqlx::query("SELECT id, name, holder FROM leases ORDER BY id")
        .fetch_all(&mut ledger)
        .await?;
    for row in rows {
        let lease = json!({
            "lease": row.try_get::<i64, _>("id")?,
            "name": row.try_get::<String, _>("name")?,
            "holder": row.try_get::<String, _>("holder")?,
        });
        println!("{lease}");
    }
    Ok(())
}

async fn open(store_url: &str) -> Result<SqliteConnection, Error> {
    let options = SqliteConnectOptions::from_str(store_url)?.create_if_missing(false);
    Ok(SqliteConnection::connect_with(&options).await?)
}
