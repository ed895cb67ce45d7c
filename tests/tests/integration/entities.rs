//! Handlers whose own table records what was handled, on PostgreSQL and SQLite.

use std::time::Duration;

use idem_amqp::{
    RunError, Worker,
    executor::ExecutionKind as Kind,
    prelude::*,
    sqlx::{Connection as _, Executor as _, PgConnection, SqliteConnection, query_scalar},
};
use idem_tests::{
    bed::Bed,
    ledger::{Charge, Ledger, in_postgres, in_sqlite},
    process::{Crash, Mode, Process, Settings},
    running::{Running, assert_balance},
    script::{Order, Script},
    store_at::Product,
};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

#[idempotent(
    key = "id",
    scope = "orders.charge",
    recorded_by = "charged_order_id_key"
)]
async fn charge(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    let charge = Charge::new(&order.id, attempt.number(), "here");
    in_postgres::write_once(db, &charge).await?;
    script.play(order, attempt, delivery).await
}

async fn charging(bed: &Bed, ledger: &Ledger, script: &Script) -> Running {
    let store = ledger.store().open_postgres().await;
    let worker = Worker::builder(store).state(script.clone());
    bed.start(worker.consume::<charge>(bed.queue()))
}

async fn ledger() -> Ledger {
    Ledger::on(Product::Postgres).await
}

async fn records(ledger: &Ledger) -> i64 {
    in_postgres::records(&ledger.store().url).await
}

/// A copy of what the handler's table records comes later.
///
/// - does: rolls the copy's run back, acknowledges it; a success leaves no record
/// - effect: once
#[tokio::test]
async fn copies_of_what_the_handlers_table_records_are_acknowledged_and_leave_no_record() {
    let (bed, ledger) = (Bed::new().await, ledger().await);
    let script = Script::succeeding();
    let worker = charging(&bed, &ledger, &script).await;
    let orders: Vec<_> = (0..1000).map(|number| format!("o-{number}")).collect();
    for order in &orders {
        bed.order(order).await;
    }
    worker.ended(Kind::Executed, 1000).await;
    for order in &orders[..20] {
        bed.order(order).await;
    }
    worker.ended(Kind::Duplicate, 20).await;

    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1000), (Kind::Duplicate, 20)]);
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.len(), 1000);
    assert!(charges.values().all(|count| *count == 1), "{charges:?}");
    assert_eq!(records(&ledger).await, 0);
    bed.assert_nothing_stuck().await;
}

/// Copies of what the handler's table records come to several workers at once.
///
/// - does: lets copies wait, in the worker or at the index
/// - effect: once each
#[tokio::test]
async fn copies_at_two_workers_are_charged_once_each_by_the_handlers_table() {
    let (bed, ledger) = (Bed::new().await, ledger().await);
    let script = Script::new(async |_| {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    });
    let workers = [
        charging(&bed, &ledger, &script).await,
        charging(&bed, &ledger, &script).await,
    ];
    let mut copies: Vec<u32> = (0..40).flat_map(|number| [number; 3]).collect();
    fastrand::shuffle(&mut copies);
    for number in copies {
        bed.order(&format!("o-{number}")).await;
    }
    bed.until_settled().await;
    let (mut executed, mut duplicates) = (0, 0);
    for worker in workers {
        let balance = worker.stop().await;
        executed += balance.of(Kind::Executed);
        duplicates += balance.of(Kind::Duplicate);
    }
    assert_eq!((executed, duplicates), (40, 80));
    assert_eq!(ledger.count().await, 40);
    assert_eq!(records(&ledger).await, 0);
    bed.assert_nothing_stuck().await;
}

/// A handler with its own table fails again and again.
///
/// - does: counts and delays its attempts, then dead-letters the message, `exhausted`
/// - effect: no write stays
#[tokio::test]
async fn attempts_of_a_handler_with_its_own_table_are_counted_and_used_up() {
    let (bed, ledger) = (Bed::new().await, ledger().await);
    let script = Script::new(async |call| match &*call.id {
        "b" if call.attempt == 3 => Ok(()),
        _ => Err(Failed::retry("the gateway timed out")),
    });
    let worker = charging(&bed, &ledger, &script).await;
    bed.order("a").await;
    let letter = bed.dead_letter().await;
    assert_eq!((&*letter.reason(), &*letter.attempt()), ("exhausted", "3"));
    assert!(letter.error().contains("gateway"), "{}", letter.error());
    bed.order("b").await;
    worker.ended(Kind::Executed, 1).await;

    let ends = [(Kind::Failed, 4), (Kind::Exhausted, 1), (Kind::Executed, 1)];
    assert_balance(&worker.stop().await, ends);
    assert_eq!(script.attempts(), [1, 2, 3, 1, 2, 3]);
    assert_eq!(ledger.charges().await, [Charge::new("b", 3, "here")]);
    // That of the dead letter.
    assert_eq!(records(&ledger).await, 1);
    bed.assert_nothing_stuck().await;
}

/// Two copies come to a worker, and one to the next, which was delivered before. Its handler finds all of them done.
async fn find_done(bed: &Bed, start: impl AsyncFn(&Script) -> Running) {
    let script = Script::new(async |_| Err(Failed::done_before()));
    let worker = start(&script).await;
    for sent in 1..=2 {
        bed.order("a").await;
        worker.ended(Kind::Duplicate, sent).await;
    }
    assert_balance(&worker.stop().await, [(Kind::Duplicate, 2)]);
    assert_eq!(script.attempts(), [1, 1]);
    bed.order("a").await;
    bed.give_back(bed.name()).await;
    let worker = start(&script).await;
    worker.ended(Kind::Duplicate, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Duplicate, 1)]);
    assert_eq!(script.attempts(), [1, 1], "it is looked up first");
}

/// A handler with its own table finds another row of its own that says that the message was done before.
///
/// - does: undoes what it has written, acknowledges the message as a duplicate, completes its key; a copy runs, and is a duplicate, too,
///   unless it was delivered before
/// - effect: none
#[tokio::test]
async fn what_a_handler_with_its_own_table_finds_done_is_a_duplicate() {
    let (bed, ledger) = (Bed::new().await, ledger().await);
    find_done(&bed, async |script| charging(&bed, &ledger, script).await).await;
    assert_eq!(ledger.charges().await, []);
    // The key's: there is no row of the handler's that tells.
    assert_eq!(records(&ledger).await, 1);
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `entities::what_a_handler_with_its_own_table_finds_done_is_a_duplicate`.
#[tokio::test]
async fn what_a_handler_with_its_own_table_on_sqlite_finds_done_is_a_duplicate() {
    let (bed, (ledger, mut file)) = (Bed::new().await, in_a_file().await);
    find_done(&bed, async |script| {
        charging_in_sqlite(&bed, &ledger, script).await
    })
    .await;
    assert_eq!(ledger.charges().await, []);
    assert_eq!(records_in(&mut file).await, 1);
    bed.assert_nothing_stuck().await;
}

#[idempotent(key = "id", recorded_by = "charges_order_id_key")]
async fn charge_without_constraint(order: Order, db: &mut PgConnection) -> Result<(), Failed> {
    in_postgres::write(db, &Charge::new(&order.id, 1, "here")).await?;
    Ok(())
}

/// The handler's table lacks the constraint.
///
/// - does: does not start, and says what to write
/// - effect: none
#[tokio::test]
async fn a_worker_whose_constraint_is_not_there_does_not_start_and_says_what_to_write() {
    let (bed, ledger) = (Bed::bare().await, ledger().await);
    let consume = async || {
        let store = ledger.store().open_postgres().await;
        Worker::builder(store).consume::<charge_without_constraint>(bed.queue())
    };
    let worker = consume().await.build(bed.url()).unwrap();
    let findings = worker.doctor().await;
    let finding = findings.iter().find(|finding| finding.code == "constraint");
    assert_eq!(finding.unwrap().subject.as_deref(), Some(bed.name()));

    let error = bed.start(consume().await).failed().await;
    assert!(matches!(error, RunError::Unfit { .. }), "{error:?}");
    let text = error.to_string();
    for words in ["charges_order_id_key", "search_path", "ADD CONSTRAINT"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[idempotent(
    key = "id",
    scope = "orders.charge",
    recorded_by = "charges_order_id_key"
)]
async fn charge_in_sqlite(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    in_sqlite::write(db, &Charge::new(&order.id, attempt.number(), "here")).await?;
    script.play(order, attempt, delivery).await
}

/// A ledger in a SQLite file that takes each order once.
async fn in_a_file() -> (Ledger, SqliteConnection) {
    let ledger = Ledger::on(Product::Sqlite).await;
    // The store makes a file of its kind.
    drop(ledger.store().open_sqlite().await);
    let mut file = SqliteConnection::connect(&ledger.store().url)
        .await
        .unwrap();
    let index = file.execute("CREATE UNIQUE INDEX charges_order_id_key ON charges (order_id)");
    index.await.unwrap();
    (ledger, file)
}

async fn charging_in_sqlite(bed: &Bed, ledger: &Ledger, script: &Script) -> Running {
    let store = ledger.store().open_sqlite().await;
    let worker = Worker::builder(store).state(script.clone());
    bed.start(worker.consume::<charge_in_sqlite>(bed.queue()))
}

async fn records_in(file: &mut SqliteConnection) -> i64 {
    let count = query_scalar("SELECT count(*) FROM idem_records");
    count.fetch_one(file).await.unwrap()
}

/// Shares the promise of `entities::copies_at_two_workers_are_charged_once_each_by_the_handlers_table`.
#[tokio::test]
async fn copies_at_two_workers_are_charged_once_each_by_the_handlers_table_on_sqlite() {
    let (bed, (ledger, mut file)) = (Bed::new().await, in_a_file().await);
    let script = Script::new(async |_| {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(())
    });
    let workers = [
        charging_in_sqlite(&bed, &ledger, &script).await,
        charging_in_sqlite(&bed, &ledger, &script).await,
    ];
    let mut copies: Vec<u32> = (0..40).flat_map(|number| [number; 3]).collect();
    fastrand::shuffle(&mut copies);
    for number in copies {
        bed.order(&format!("o-{number}")).await;
    }
    bed.until_settled().await;
    let (mut executed, mut duplicates) = (0, 0);
    for worker in workers {
        let balance = worker.stop().await;
        executed += balance.of(Kind::Executed);
        duplicates += balance.of(Kind::Duplicate);
    }
    assert_eq!((executed, duplicates), (40, 80));
    assert_eq!(ledger.count().await, 40);
    assert_eq!(records_in(&mut file).await, 0);
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `entities::attempts_of_a_handler_with_its_own_table_are_counted_and_used_up`.
#[tokio::test]
async fn attempts_of_a_handler_with_its_own_table_on_sqlite_are_counted_and_used_up() {
    let (bed, (ledger, mut file)) = (Bed::new().await, in_a_file().await);
    let script = Script::new(async |call| match &*call.id {
        "b" if call.attempt == 3 => Ok(()),
        _ => Err(Failed::retry("the gateway timed out")),
    });
    let worker = charging_in_sqlite(&bed, &ledger, &script).await;
    bed.order("a").await;
    let letter = bed.dead_letter().await;
    assert_eq!((&*letter.reason(), &*letter.attempt()), ("exhausted", "3"));
    bed.order("b").await;
    worker.ended(Kind::Executed, 1).await;
    bed.order("b").await;
    worker.ended(Kind::Duplicate, 1).await;

    let ends = [
        (Kind::Failed, 4),
        (Kind::Exhausted, 1),
        (Kind::Executed, 1),
        (Kind::Duplicate, 1),
    ];
    assert_balance(&worker.stop().await, ends);
    assert_eq!(ledger.charges().await, [Charge::new("b", 3, "here")]);
    // That of the dead letter.
    assert_eq!(records_in(&mut file).await, 1);
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `entities::a_worker_whose_constraint_is_not_there_does_not_start_and_says_what_to_write`.
#[tokio::test]
async fn a_worker_whose_index_is_not_in_the_file_does_not_start_and_says_what_to_write() {
    let (bed, ledger) = (Bed::bare().await, Ledger::on(Product::Sqlite).await);
    let store = ledger.store().open_sqlite().await;
    let worker = Worker::builder(store).state(Script::succeeding());
    let worker = worker.consume::<charge_in_sqlite>(bed.queue());
    let error = bed.start(worker).failed().await;
    assert!(matches!(error, RunError::Unfit { .. }), "{error:?}");
    let text = error.to_string();
    for words in ["charges_order_id_key", "CREATE UNIQUE INDEX"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// A worker dies at this point of a message; another one comes. What was charged in the end?
async fn charges_after(crash: Crash, end: &str) -> Vec<Charge> {
    let (bed, ledger) = (Bed::new().await, ledger().await);
    let settings = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = Mode::Entity;
        settings.name = "second".into();
    });
    let dying = settings.with(|settings| {
        settings.name = "first".into();
        settings.crash = Some(crash);
    });
    let first = Process::start(LEDGER_WORKER, &dying);
    bed.order("a").await;
    first.died().await;

    let second = Process::start(LEDGER_WORKER, &settings);
    second.ended(end, 1).await;
    assert_eq!(second.stop().await, [(end.to_owned(), 1)]);
    assert_eq!(records(&ledger).await, 0);
    bed.assert_nothing_stuck().await;
    ledger.charges().await
}

/// A worker whose handler has its own table dies after the commit, before the ack.
///
/// - does: acknowledges the redelivery
/// - effect: once
#[tokio::test]
async fn a_worker_killed_between_the_commit_of_its_row_and_the_ack_is_not_repeated() {
    let charges = charges_after(Crash::AfterCompletion(1), "duplicate").await;
    assert_eq!(charges, [Charge::new("a", 1, "first")]);
}

/// A worker whose handler has its own table dies before the commit.
///
/// - does: lets another worker run the message
/// - effect: once
#[tokio::test]
async fn a_worker_killed_before_the_commit_of_its_row_has_done_nothing() {
    let charges = charges_after(Crash::BeforeCompletion(1), "executed").await;
    assert_eq!(charges, [Charge::new("a", 1, "second")]);
}

/// A worker whose handler has its own table dies in the handler, at every attempt.
///
/// - does: dead-letters it after one more than its attempts
/// - effect: no write stays
///
/// The first attempt is not counted: nothing is known of it when it begins.
#[tokio::test]
async fn a_message_that_kills_workers_with_tables_of_their_own_is_dead_lettered() {
    let (bed, ledger) = (Bed::new().await, ledger().await);
    let settings = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = Mode::Entity;
        settings.max_attempts = 2;
        settings.lease_ms = 600;
        settings.crash = Some(Crash::InHandler);
    });
    bed.order("poison").await;
    for _ in 0..3 {
        Process::start(LEDGER_WORKER, &settings).died().await;
    }
    let survivor = Process::start(LEDGER_WORKER, &settings);
    let letter = bed.dead_letter().await;
    assert_eq!((&*letter.reason(), &*letter.attempt()), ("exhausted", "2"));
    survivor.ended("exhausted", 1).await;
    survivor.stop().await;
    assert_eq!(ledger.count().await, 0);
    bed.assert_nothing_stuck().await;
}
