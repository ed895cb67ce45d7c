//! On PostgreSQL: the lease is a row, committed together with the answer to its request.

use idem_amqp::{
    PostgresStore, Refused,
    prelude::*,
    sqlx::{self, Connection as _, PgConnection, Row as _},
};
use lease_contract::{CreateLease, Lease, LeaseError};
use serde_json::json;

use crate::Error;

/// The lock is for servers that start at the same time, whom `IF NOT EXISTS` alone does not keep apart.
const CREATE_LEASES: &str = "
BEGIN;
SELECT pg_advisory_xact_lock(hashtext('leases'));
CREATE TABLE IF NOT EXISTS leases (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name   text   NOT NULL UNIQUE,
    holder text   NOT NULL
);
COMMIT";

/// Not idempotent by itself: a second run would find the name taken, by its own client.
// The scope is durable: it stands in every key.
#[idempotent(key = message_id(), scope = "leases.create")]
async fn create_lease(
    request: CreateLease,
    db: &mut PgConnection,
) -> Result<Lease, Refused<LeaseError>> {
    let granted: Option<i64> = sqlx::query_scalar(
        "INSERT INTO leases (name, holder) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING id",
    )
    .bind(&request.name)
    .bind(&request.holder)
    .fetch_optional(&mut *db)
    .await?;
    if let Some(id) = granted {
        return Ok(Lease { id });
    }
    let by = sqlx::query_scalar("SELECT holder FROM leases WHERE name = $1")
        .bind(&request.name)
        .fetch_one(db)
        .await?;
    Err(Refused::with(LeaseError::Taken { by }))
}

pub(crate) async fn serve(store_url: &str) -> Result<(), Error> {
    let store = PostgresStore::connect(store_url).await?;
    let mut ledger = PgConnection::connect(store_url).await?;
    sqlx::raw_sql(CREATE_LEASES).execute(&mut ledger).await?;
    ledger.close().await?;
    crate::serve::<create_lease, _>(store).await
}

pub(crate) async fn print_ledger(store_url: &str) -> Result<(), Error> {
    let mut ledger = PgConnection::connect(store_url).await?;
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
