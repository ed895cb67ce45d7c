//! Charges in a SQLite file.

use std::{path::Path, time::Duration};

use idem_amqp::sqlx::{
    self, ConnectOptions, Connection, Row, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

use super::Charge;

pub(super) async fn create(path: &Path) {
    let mut connection = open(path).await;
    let tables = "
        CREATE TABLE charges (order_id TEXT, attempt INTEGER, worker TEXT);
        CREATE TABLE charged (order_id TEXT);
        CREATE UNIQUE INDEX charged_order_id_key ON charged (order_id)";
    sqlx::raw_sql(tables)
        .execute(&mut connection)
        .await
        .expect("a new table");
    connection.close().await.expect("an open connection");
}

pub(super) async fn charges(path: &Path) -> Vec<Charge> {
    let mut connection = open(path).await;
    let rows = sqlx::query("SELECT order_id, attempt, worker FROM charges ORDER BY rowid")
        .fetch_all(&mut connection)
        .await
        .expect("the ledger can be read");
    let charges = rows.iter().map(|row| Charge {
        order_id: row.get("order_id"),
        attempt: row.get("attempt"),
        worker: row.get("worker"),
    });
    charges.collect()
}

async fn open(path: &Path) -> SqliteConnection {
    options(path).connect().await.expect("a SQLite file")
}

/// How the file is opened, as every worker does.
pub fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(10))
}

/// How many records the store keeps.
pub(super) async fn records(path: &Path) -> i64 {
    let count = sqlx::query_scalar("SELECT count(*) FROM idem_records");
    let count = count.fetch_one(&mut open(path).await).await;
    count.expect("the records can be counted")
}

/// Writes a charge, and that the order is charged, which can be written once.
///
/// # Errors
/// If SQLite does.
pub async fn write_once(db: &mut SqliteConnection, charge: &Charge) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO charged VALUES (?)")
        .bind(&charge.order_id)
        .execute(&mut *db)
        .await?;
    write(db, charge).await
}

/// Writes a charge.
///
/// # Errors
/// If SQLite does.
pub async fn write(db: &mut SqliteConnection, charge: &Charge) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO charges (order_id, attempt, worker) VALUES (?, ?, ?)")
        .bind(&charge.order_id)
        .bind(charge.attempt)
        .bind(&charge.worker)
        .execute(db)
        .await?;
    Ok(())
}
