//! One transaction for several messages: the rows of their keys with one statement, the rows of business with another,
//! or each in a savepoint.
//!
//! Both are right when messages come again: a key is new in exactly one transaction that commits. Keys are inserted in
//! their order, so that two consumers do not wait for each other.

use std::collections::HashSet;

use bench_orders::{Order, Tally};
use idem_amqp::sqlx::{self, Connection as _, PgConnection, PgTransaction, SqliteConnection};

use super::HandleTogether;
use crate::{Result, charges};

/// One statement charges all; if it fails, it fails for all.
#[derive(Debug)]
pub(crate) struct Setwise(PgConnection);

/// Each order is charged in a savepoint; one that fails costs the others nothing.
#[derive(Debug)]
pub(crate) struct Savepoints(PgConnection);

/// The same in a SQLite file.
#[derive(Debug)]
pub(crate) struct SqliteSavepoints(SqliteConnection);

impl Setwise {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        Ok(Self(connect(url).await?))
    }
}

impl Savepoints {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        Ok(Self(connect(url).await?))
    }
}

impl SqliteSavepoints {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let mut connection = charges::sqlite(url).await?;
        sqlx::raw_sql(KEYS).execute(&mut connection).await?;
        Ok(Self(connection))
    }
}

const KEYS: &str = "CREATE TABLE processed (key text PRIMARY KEY, status text NOT NULL)";

async fn connect(url: &str) -> Result<PgConnection> {
    let mut connection = PgConnection::connect(url).await?;
    sqlx::raw_sql(KEYS).execute(&mut connection).await?;
    Ok(connection)
}

/// The orders whose keys nobody has inserted before, each once, with their places.
async fn new<'a>(
    transaction: &mut PgTransaction<'_>,
    orders: &'a [Order],
) -> Result<Vec<(usize, &'a Order)>> {
    let keys: Vec<_> = orders.iter().map(|order| order.id.as_str()).collect();
    let inserted: Vec<String> = sqlx::query_scalar(
        "INSERT INTO processed (key, status)
         SELECT DISTINCT key, 'done' FROM unnest($1::text[]) AS key ORDER BY key
         ON CONFLICT DO NOTHING
         RETURNING key",
    )
    .bind(keys)
    .fetch_all(&mut **transaction)
    .await?;
    let mut new: HashSet<_> = inserted.iter().map(String::as_str).collect();
    let orders = orders.iter().enumerate();
    Ok(orders.filter(|(_, order)| new.remove(&*order.id)).collect())
}

impl HandleTogether for Setwise {
    async fn handle(&mut self, orders: &[Order], tally: &Tally) -> Result<Vec<usize>> {
        let mut transaction = self.0.begin().await?;
        let new = new(&mut transaction, orders).await?;
        if !new.is_empty() {
            charges::charge_all(&mut transaction, new.iter().map(|(_, order)| *order)).await?;
            tally.work().await;
        }
        transaction.commit().await?;
        for (_, order) in new {
            tally.execute(order);
        }
        Ok(Vec::new())
    }
}

impl HandleTogether for Savepoints {
    async fn handle(&mut self, orders: &[Order], tally: &Tally) -> Result<Vec<usize>> {
        let mut transaction = self.0.begin().await?;
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for (place, order) in new(&mut transaction, orders).await? {
            let mut savepoint = transaction.begin().await?;
            if charges::charge(&mut savepoint, order).await.is_ok() {
                tally.work().await;
                savepoint.commit().await?;
                done.push(order);
                continue;
            }
            savepoint.rollback().await?;
            sqlx::query("DELETE FROM processed WHERE key = $1")
                .bind(&order.id)
                .execute(&mut *transaction)
                .await?;
            failed.push(place);
        }
        transaction.commit().await?;
        for order in done {
            tally.execute(order);
        }
        Ok(failed)
    }
}

impl HandleTogether for SqliteSavepoints {
    async fn handle(&mut self, orders: &[Order], tally: &Tally) -> Result<Vec<usize>> {
        let mut transaction = self.0.begin_with("BEGIN IMMEDIATE").await?;
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for (place, order) in orders.iter().enumerate() {
            let mut savepoint = transaction.begin().await?;
            let inserted = sqlx::query(
                "INSERT INTO processed (key, status) VALUES (?, 'done') ON CONFLICT DO NOTHING",
            )
            .bind(&order.id)
            .execute(&mut *savepoint)
            .await?;
            if inserted.rows_affected() > 0 {
                if charges::charge_in_file(&mut savepoint, order)
                    .await
                    .is_err()
                {
                    savepoint.rollback().await?;
                    failed.push(place);
                    continue;
                }
                tally.work().await;
                done.push(order);
            }
            savepoint.commit().await?;
        }
        transaction.commit().await?;
        for order in done {
            tally.execute(order);
        }
        Ok(failed)
    }
}
