//! Handlers that find in the row which they update that a message was done before: the cookbook's form, on a database
//! that the store does not share a transaction with.

use idem_amqp::{
    Worker,
    executor::{ExecutionKind as Kind, RunsOn},
    handler::Handler,
    prelude::*,
    sqlx::{self, PgPool, SqlitePool, query_scalar},
    store::Purge,
};
use idem_tests::{bed::Bed, ledger::Ledger, running::assert_balance, store_at::Product};
use serde::{Deserialize, Serialize};

const ACCOUNTS: &str = "
    CREATE TABLE accounts (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL, last_credit TEXT);
    INSERT INTO accounts VALUES (7, 100, NULL)";
/// It touches no row if the row holds this id already.
const UPDATE: &str = "UPDATE accounts SET cents = cents + $2, last_credit = $3 WHERE id = $1 AND last_credit IS DISTINCT FROM $3";
const CENTS: &str = "SELECT cents FROM accounts WHERE id = 7";

#[derive(Clone, Serialize, Deserialize)]
struct Credited {
    credit_id: String,
    account: i32,
    cents: i32,
}

/// What of a handler's rows says that it was done before.
fn credited(rows: u64) -> Result<(), Failed> {
    if rows == 0 {
        return Err(Failed::done_before());
    }
    Ok(())
}

#[idempotent(key = "credit_id", scope = "accounts.credit")]
async fn credit_in_postgres(order: Credited, State(bank): State<PgPool>) -> Result<(), Failed> {
    let update = sqlx::query(UPDATE);
    let update = update
        .bind(order.account)
        .bind(order.cents)
        .bind(order.credit_id);
    credited(update.execute(&bank).await?.rows_affected())
}

#[idempotent(key = "credit_id", scope = "accounts.credit")]
async fn credit_in_sqlite(order: Credited, State(bank): State<SqlitePool>) -> Result<(), Failed> {
    let update = sqlx::query(UPDATE);
    let update = update
        .bind(order.account)
        .bind(order.cents)
        .bind(order.credit_id);
    credited(update.execute(&bank).await?.rows_affected())
}

/// A message comes twice, and once more after its record was lost.
async fn a_credit_and_its_copies<H, S, Bank>(store: S, bank: Bank, lose: impl AsyncFnOnce())
where
    H: Handler<Bank, Mode: RunsOn<S>>,
    S: Purge + Clone,
    Bank: Clone + Send + Sync + 'static,
{
    let bed = Bed::new().await;
    let worker = Worker::builder(store).state(bank);
    let worker = bed.start(worker.consume::<H>(bed.queue()));
    let credit = Credited {
        credit_id: "c-1".into(),
        account: 7,
        cents: 20,
    };
    bed.json(&credit).await;
    worker.ended(Kind::Executed, 1).await;
    bed.json(&credit).await;
    worker.ended(Kind::Duplicate, 1).await;
    lose().await;
    // The handler finds this one done, and the store the next one.
    for copies in [2, 3] {
        bed.json(&credit).await;
        worker.ended(Kind::Duplicate, copies).await;
    }
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 3)]);
    bed.assert_nothing_stuck().await;
}

/// The store loses its record of a message, whose handler finds the message's id in the row of PostgreSQL or SQLite
/// that it updates: the `UPDATE` touches none.
///
/// - does: completes the key, acknowledges the copy as a duplicate
/// - leased: once
#[tokio::test]
async fn a_row_in_postgres_that_holds_the_messages_id_is_updated_once() {
    let ledger = Ledger::on(Product::Postgres).await;
    let bank = PgPool::connect(&ledger.store().url).await.unwrap();
    sqlx::raw_sql(ACCOUNTS).execute(&bank).await.unwrap();
    let lose = async || {
        let lost = sqlx::query("DELETE FROM idem_records").execute(&bank).await;
        assert_eq!(lost.unwrap().rows_affected(), 1);
    };
    let store = ledger.store().open_postgres().await;
    a_credit_and_its_copies::<credit_in_postgres, _, _>(store, bank.clone(), lose).await;
    let cents: i32 = query_scalar(CENTS).fetch_one(&bank).await.unwrap();
    assert_eq!(cents, 120);
}

/// Shares the promise of `row_ids::a_row_in_postgres_that_holds_the_messages_id_is_updated_once`.
#[tokio::test]
async fn a_row_in_sqlite_that_holds_the_messages_id_is_updated_once() {
    let ledger = Ledger::on(Product::Sqlite).await;
    let bank = SqlitePool::connect(&ledger.store().url).await.unwrap();
    sqlx::raw_sql(ACCOUNTS).execute(&bank).await.unwrap();
    let lose = async || {
        let lost = sqlx::query("DELETE FROM idem_records").execute(&bank).await;
        assert_eq!(lost.unwrap().rows_affected(), 1);
    };
    let store = ledger.store().open_sqlite().await;
    a_credit_and_its_copies::<credit_in_sqlite, _, _>(store, bank.clone(), lose).await;
    let cents: i32 = query_scalar(CENTS).fetch_one(&bank).await.unwrap();
    assert_eq!(cents, 120);
}
