//! Charges in a `PostgreSQL` database.

use idem_amqp::sqlx::{self, Connection, PgConnection, Row};

use super::Charge;

pub(super) async fn create(url: &str) {
    let mut connection = open(url).await;
    let tables = "
        CREATE TABLE charges (number serial, order_id text, attempt bigint, worker text);
        CREATE TABLE charged (order_id text CONSTRAINT charged_order_id_key UNIQUE)";
    sqlx::raw_sql(tables)
        .execute(&mut connection)
        .await
        .expect("a new table");
    connection.close().await.expect("an open connection");
}

pub(super) async fn charges(url: &str) -> Vec<Charge> {
    let mut connection = open(url).await;
    let rows = sqlx::query("SELECT order_id, attempt, worker FROM charges ORDER BY number")
        .fetch_all(&mut connection)
        .await
        .expect("the ledger can be read");
    let charges = rows.iter().map(|row| Charge {
        order_id: row.get("order_id"),
        attempt: u32::try_from(row.get::<i64, _>("attempt")).expect("written from one"),
        worker: row.get("worker"),
    });
    charges.collect()
}

async fn open(url: &str) -> PgConnection {
    let connection = PgConnection::connect(url).await;
    connection.expect("a PostgreSQL that answers")
}

/// Writes a charge, and that the order is charged, which can be written once.
///
/// # Errors
/// If `PostgreSQL` does.
pub async fn write_once(db: &mut PgConnection, charge: &Charge) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO charged VALUES ($1)")
        .bind(&charge.order_id)
        .execute(&mut *db)
        .await?;
    write(db, charge).await
}

/// Writes charges with one statement.
///
/// # Errors
/// If `PostgreSQL` does.
pub async fn write_all(db: &mut PgConnection, charges: &[Charge]) -> Result<(), sqlx::Error> {
    let ids: Vec<_> = charges.iter().map(|it| it.order_id.as_str()).collect();
    let attempts: Vec<_> = charges.iter().map(|it| i64::from(it.attempt)).collect();
    let workers: Vec<_> = charges.iter().map(|it| it.worker.as_str()).collect();
    sqlx::query(
        "INSERT INTO charges (order_id, attempt, worker)
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[])",
    )
    .bind(ids)
    .bind(attempts)
    .bind(workers)
    .execute(db)
    .await?;
    Ok(())
}

/// How many records the store keeps.
pub async fn records(url: &str) -> i64 {
    let count = sqlx::query_scalar("SELECT count(*) FROM idem_records");
    let count = count.fetch_one(&mut open(url).await).await;
    count.expect("the records can be counted")
}

/// At how many moments something was completed: what commits together is of one.
pub async fn moments(url: &str) -> i64 {
    let count = "SELECT count(DISTINCT updated_at) FROM idem_records WHERE state = 'completed'";
    let count = sqlx::query_scalar(count)
        .fetch_one(&mut open(url).await)
        .await;
    count.expect("the records can be counted")
}

/// Writes a charge.
///
/// # Errors
/// If `PostgreSQL` does.
pub async fn write(db: &mut PgConnection, charge: &Charge) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO charges (order_id, attempt, worker) VALUES ($1, $2, $3)")
        .bind(&charge.order_id)
        .bind(i64::from(charge.attempt))
        .bind(&charge.worker)
        .execute(db)
        .await?;
    Ok(())
}
