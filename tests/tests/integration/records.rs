//! What a store keeps of a key for people: its times, and its outcome; also in tables that an earlier version has made.

use std::time::Duration;

use idem_amqp::{
    Worker,
    executor::ExecutionKind as Kind,
    prelude::*,
    sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection, query_as, raw_sql},
    store::{KeyState, Look, Purge},
};
use idem_tests::{
    bed::Bed,
    cell::Cell,
    ledger::Ledger,
    on_each_store,
    running::assert_balance,
    script::{Order, Script},
    store_at::Product,
};
use serde::{Deserialize, Serialize};

/// A message fails, and its next attempt succeeds.
///
/// - told: by `Look` on each store: the state of its key, the attempts, when it was claimed first and when it was
///   completed. Copies change none of it
async fn the_first_claim_and_the_completion_of_a_key_are_told<C: Cell<Store: Look>>() {
    const TAKES: Duration = Duration::from_millis(50);
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::new(async |call| {
        tokio::time::sleep(TAKES).await;
        match call.attempt {
            1 => Err(Failed::retry("the gateway timed out")),
            _ => Ok(()),
        }
    });
    let worker = cell.charging(&bed, &script);
    let key = Key::new("orders.charge", "a").unwrap();
    assert_eq!(cell.store().look(&key).await.unwrap(), None);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    let record = async || cell.store().look(&key).await.unwrap().unwrap().record;
    let told = record().await;
    assert_eq!((told.state(), told.attempts), (KeyState::Completed, 2));
    let [created, completed] = [told.created_at, told.completed_at].map(Option::unwrap);
    let took = completed.duration_since(created).unwrap();
    assert!(took >= 2 * TAKES, "{took:?}");
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;
    let again = record().await;
    assert_eq!(
        (again.created_at, again.completed_at),
        (told.created_at, told.completed_at)
    );
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    receipt: String,
}

#[idempotent(key = "id", scope = "orders.charge")]
async fn receipt(order: Order) -> Result<Receipt, Failed> {
    let receipt = format!("r-{}", order.id);
    Ok(Receipt { receipt })
}

/// What the view shows: the receipt in the outcome, and whether there are the two times.
type Shown = (String, bool, bool);

fn shown(id: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!(
        "SELECT outcome ->> 'receipt', created_at IS NOT NULL, completed_at IS NOT NULL FROM idem_records_readable
         WHERE key = 'orders.charge:{id}'"
    ))
}

/// A worker of the earlier version, whose table this leaves; then one of this version.
async fn on_an_old_table<S: Purge + Clone>(
    open: impl AsyncFn() -> S,
    outdate: impl AsyncFnOnce(),
    read: impl AsyncFn(&str) -> Shown,
) {
    let bed = Bed::new().await;
    let start = async || {
        let worker = Worker::builder(open().await);
        bed.start(worker.consume::<receipt>(bed.queue()))
    };
    let earlier = start().await;
    bed.order("old").await;
    earlier.ended(Kind::Executed, 1).await;
    earlier.stop().await;
    outdate().await;

    let worker = start().await;
    bed.order("old").await;
    worker.ended(Kind::Duplicate, 1).await;
    bed.order("new").await;
    worker.ended(Kind::Executed, 1).await;
    let ended = [(Kind::Duplicate, 1), (Kind::Executed, 1)];
    assert_balance(&worker.stop().await, ended);
    assert_eq!(read("old").await, ("r-old".into(), false, true));
    assert_eq!(read("new").await, ("r-new".into(), true, true));
    bed.assert_nothing_stuck().await;
}

/// A worker starts on a table of PostgreSQL or SQLite that an earlier version has made, without the time of the first
/// claim.
///
/// - told: what was handled before, without that time, and what is handled now, with it. The view
///   `idem_records_readable` shows both, and an outcome that is JSON as JSON
#[tokio::test]
async fn a_table_of_an_earlier_version_in_postgres_gets_what_it_lacks() {
    let ledger = Ledger::on(Product::Postgres).await;
    let (at, url) = (ledger.store(), &ledger.store().url);
    let outdate = async || {
        let outdated =
            "DROP VIEW idem_records_readable; ALTER TABLE idem_records DROP COLUMN created_at";
        let mut database = PgConnection::connect(url).await.unwrap();
        raw_sql(outdated).execute(&mut database).await.unwrap();
    };
    let read = async |id: &str| {
        let mut database = PgConnection::connect(url).await.unwrap();
        query_as(shown(id)).fetch_one(&mut database).await.unwrap()
    };
    on_an_old_table(|| at.open_postgres(), outdate, read).await;
}

/// Shares the promise of `records::a_table_of_an_earlier_version_in_postgres_gets_what_it_lacks`.
#[tokio::test]
async fn a_table_of_an_earlier_version_in_sqlite_gets_what_it_lacks() {
    let ledger = Ledger::on(Product::Sqlite).await;
    let (at, url) = (ledger.store(), &ledger.store().url);
    let outdate = async || {
        let outdated =
            "DROP VIEW idem_records_readable; ALTER TABLE idem_records DROP COLUMN created_at;
            CREATE VIEW idem_records_readable AS SELECT key FROM idem_records";
        let mut file = SqliteConnection::connect(url).await.unwrap();
        raw_sql(outdated).execute(&mut file).await.unwrap();
    };
    let read = async |id: &str| {
        let mut file = SqliteConnection::connect(url).await.unwrap();
        query_as(shown(id)).fetch_one(&mut file).await.unwrap()
    };
    on_an_old_table(|| at.open_sqlite(), outdate, read).await;
}

on_each_store! {
    the_first_claim_and_the_completion_of_a_key_are_told,
}
