//! What a handler, or the driver on its behalf, does to a connection that it was lent.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};

use idem_amqp::{
    Worker,
    executor::ExecutionKind as Kind,
    prelude::*,
    sqlx::{self, Connection as _, Executor as _, PgConnection},
};
use idem_tests::{
    bed::Bed,
    ledger::{Charge, Ledger, in_postgres},
    script::{Order, Script},
    store_at::Product,
};
use tokio::time::timeout;

/// Fails when the transaction commits, and not before.
const TWINS: &str = "INSERT INTO receipts VALUES ('twin'), ('twin')";

async fn ledger_with_receipts() -> Ledger {
    let ledger = Ledger::on(Product::Postgres).await;
    let mut db = PgConnection::connect(&ledger.store().url).await.unwrap();
    let receipts = "CREATE TABLE receipts (name text UNIQUE DEFERRABLE INITIALLY DEFERRED)";
    sqlx::raw_sql(receipts).execute(&mut db).await.unwrap();
    ledger
}

static COPIES: AtomicBool = AtomicBool::new(true);

/// The first time, a `COPY` fails in a savepoint, whose answer the driver does not read to its end.
#[idempotent(key = "id", scope = "orders.copy")]
async fn copy_in_vain(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    in_postgres::write(db, &Charge::new(&order.id, attempt.number(), "here")).await?;
    if COPIES.swap(false, SeqCst) {
        db.execute("SAVEPOINT copying").await?;
        drop(db.copy_out_raw("COPY no_such_table TO STDOUT").await);
        db.execute("ROLLBACK TO SAVEPOINT copying").await?;
        db.execute(TWINS).await?;
    }
    script.play(order, attempt, delivery).await
}

/// An answer is left unread on an atomic handler's connection (a `COPY` that fails, in sqlx), and its commit fails.
///
/// - does: believes a commit only by its own answer; finds out whether it has committed, and uses the connection no
///   more
/// - atomic: once, after another attempt
#[tokio::test]
async fn a_commit_whose_answer_comes_late_is_found_out_and_loses_nothing() {
    let (bed, ledger) = (Bed::new().await, ledger_with_receipts().await);
    let store = ledger.store().open_postgres().await;
    let worker = Worker::builder(store).state(Script::succeeding());
    let worker = bed.start(worker.consume::<copy_in_vain>(bed.queue()));
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    bed.until_settled().await;

    let balance = worker.stop().await;
    assert_eq!(balance.of(Kind::Executed), 1, "{balance}");
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.get("a"), Some(&1), "{charges:?}");
    bed.assert_nothing_stuck().await;
}

static NESTS: AtomicBool = AtomicBool::new(true);

/// The first time, it gives a nested transaction up before it has begun, and goes on. The driver has rolled everything
/// back by then.
#[idempotent(key = "id", scope = "orders.nest")]
async fn nest_in_vain(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    if NESTS.swap(false, SeqCst) {
        let nested = timeout(Duration::ZERO, db.begin()).await;
        assert!(nested.is_err(), "it takes a round trip");
        // Its `Drop` needs the connection.
        drop(nested);
    }
    in_postgres::write(db, &Charge::new(&order.id, attempt.number(), "here")).await?;
    script.play(order, attempt, delivery).await
}

/// An atomic handler on PostgreSQL (without a pooler in transaction mode) loses its transaction and goes on (a nested
/// `db.begin()` that a time-out drops makes sqlx roll everything back).
///
/// - does: refuses what it writes then (25006); the attempt has failed
/// - atomic: once, after another attempt
#[tokio::test]
async fn an_atomic_handler_that_goes_on_without_its_transaction_writes_nothing_on_postgres() {
    let (bed, ledger) = (Bed::new().await, ledger_with_receipts().await);
    let store = ledger.store().open_postgres().await;
    let worker = Worker::builder(store).state(Script::succeeding());
    let worker = bed.start(worker.consume::<nest_in_vain>(bed.queue()));
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    bed.until_settled().await;

    let balance = worker.stop().await;
    assert_eq!(balance.of(Kind::Failed), 1, "{balance}");
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.get("a"), Some(&1), "{charges:?}");
    bed.assert_nothing_stuck().await;
}
