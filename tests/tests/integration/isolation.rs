//! Databases that isolate transactions more strictly than `PostgreSQL` does by default.

use std::{collections::BTreeSet, time::Duration};

use idem_amqp::{
    Policy, Worker,
    executor::ExecutionKind as Kind,
    handler::Backoff,
    prelude::*,
    sqlx::{self, Connection, PgConnection, Row},
};
use idem_tests::{
    bed::Bed,
    journal::eventually,
    script::{Order, Script},
    store_at::StoreAt,
};

const ORDERS: usize = 24;

/// The number of an invoice is one more than there are, which is a mistake unless transactions are
/// serializable.
#[idempotent(key = "id", scope = "orders.invoice")]
async fn invoice(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    let numbered = "INSERT INTO invoices (order_id, number)
                    SELECT $1, count(*) + 1 FROM invoices";
    sqlx::query(numbered)
        .bind(&order.id)
        .execute(&mut *db)
        .await?;
    // So that others are in the way.
    sqlx::query("SELECT pg_sleep(0.02)").execute(db).await?;
    script.play(order, attempt, delivery).await
}

/// An empty database whose transactions are serializable unless they say otherwise.
async fn serializable() -> StoreAt {
    let at = StoreAt::postgres().await;
    let mut db = PgConnection::connect(&at.url).await.unwrap();
    let statements = "
        DO $$ BEGIN EXECUTE format(
            'ALTER DATABASE %I SET default_transaction_isolation = ''serializable''',
            current_database()
        ); END $$;
        CREATE TABLE invoices (order_id text, number bigint)";
    sqlx::raw_sql(statements).execute(&mut db).await.unwrap();
    at
}

async fn invoices(url: &str) -> Vec<(String, i64)> {
    let mut db = PgConnection::connect(url).await.unwrap();
    let rows = sqlx::query("SELECT order_id, number FROM invoices ORDER BY number");
    let rows = rows.fetch_all(&mut db).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// As many attempts as it takes.
fn patient() -> Policy {
    let backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(50));
    let policy = Policy::builder().backoff(backoff).max_attempts(1000);
    policy.build().unwrap()
}

async fn publish_twice(bed: &Bed) {
    let mut copies: Vec<_> = (0..ORDERS).flat_map(|number| [number; 2]).collect();
    fastrand::shuffle(&mut copies);
    for number in copies {
        bed.order(&format!("o-{number}")).await;
    }
}

/// The database is `SERIALIZABLE` by default, and handlers conflict with each other.
///
/// - does: tries those again that the database refused
/// - atomic: once each, as if one after the other
#[tokio::test]
async fn atomic_handlers_on_a_serializable_postgres_take_effect_once_as_if_one_after_the_other() {
    let (bed, at) = (Bed::new().await, serializable().await);
    let mut workers = Vec::new();
    for _ in 0..2 {
        let worker = Worker::builder(at.open_postgres().await).state(Script::succeeding());
        let queue = bed.queue().policy(patient());
        workers.push(bed.start(worker.consume::<invoice>(queue)));
    }
    publish_twice(&bed).await;
    eventually("every order has an invoice", async || {
        match invoices(&at.url).await.len() {
            ORDERS => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
    bed.until_settled().await;

    let (mut executed, mut failed) = (0, 0);
    for worker in workers {
        let balance = worker.stop().await;
        executed += balance.of(Kind::Executed);
        failed += balance.of(Kind::Failed);
    }
    assert_eq!(executed, ORDERS as u64);
    assert!(failed > 0, "nothing was in the way of anything");
    let (orders, numbers): (BTreeSet<_>, Vec<_>) = invoices(&at.url).await.into_iter().unzip();
    assert_eq!(orders.len(), ORDERS);
    assert_eq!(numbers, (1..).take(ORDERS).collect::<Vec<i64>>());
    bed.assert_nothing_stuck().await;
}
