//! Charges in a SQLite file.

use std::{path::Path, time::Duration};

use idem_amqp::sqlx::{
    self, ConnectOptions, Connection, Row, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

use super::Charge;

pub(super) async fn create(path: &Path) {
    let mut connection = open(path).await;
    sqlx::raw_sql("CREATE TABLE charges (order_id TEXT, attempt INTEGER, worker TEXT)")
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
