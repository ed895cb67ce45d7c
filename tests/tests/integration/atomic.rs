//! Handlers whose writes commit together with the record of them.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};

use futures_util::poll;
use idem_amqp::{
    SqliteStore, Worker,
    executor::ExecutionKind as Kind,
    prelude::*,
    sqlx::{Connection as _, SqliteConnection},
};
use idem_tests::{
    atomic_on_each_store,
    bed::{Bed, QUICK},
    cell::Cell,
    interfered::{Call, Fate},
    journal::eventually,
    ledger::{Charge, Ledger, in_sqlite},
    log::Log,
    running::assert_balance,
    script::{Order, Script},
};

#[idempotent(key = "id", scope = "orders.charge")]
async fn charge_atomically(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    in_sqlite::write(db, &Charge::new(&order.id, attempt.number(), "here")).await?;
    script.play(order, attempt, delivery).await
}

async fn attempts_charged(ledger: &Ledger) -> Vec<u32> {
    let charges = ledger.charges().await;
    charges.into_iter().map(|charge| charge.attempt).collect()
}

/// The first attempt writes its charge, and then fails in this way.
async fn rolled_back<C: Cell>(act: impl Fn() -> Result<(), Failed> + Send + Sync + 'static) {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::new(move |call| {
        let ended = if call.attempt == 1 { act() } else { Ok(()) };
        async { ended }
    });
    let worker = cell.charging(&bed, &script);
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// The handler fails after it has written.
///
/// - does: rolls back, then records the failure
/// - atomic: no write stays
async fn what_a_failed_atomic_handler_wrote_is_rolled_back<C: Cell>() {
    rolled_back::<C>(|| Err(Failed::retry("the gateway timed out"))).await;
}

/// The handler panics after it has written.
///
/// - does: rolls back, then records the failure
/// - atomic: no write stays
async fn what_a_panicking_atomic_handler_wrote_is_rolled_back<C: Cell>() {
    rolled_back::<C>(|| panic!("a bug in the handler")).await;
}

/// The handler rejects the message after it has written.
///
/// - does: rolls back, then dead-letters
/// - atomic: no write stays
async fn what_a_rejecting_atomic_handler_wrote_is_rolled_back<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::new(async |_| Err(Failed::rejected("no such customer")));
    let worker = cell.charging(&bed, &script);
    bed.order("a").await;

    assert_eq!(bed.dead_letter().await.reason(), "rejected");
    worker.ended(Kind::Rejected, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Rejected, 1)]);
    cell.assert_effects(&script, [""; 0]).await;
    bed.assert_nothing_stuck().await;
}

/// This happens to the first commit.
async fn commit_after<C: Cell>(trouble: Fate) {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let store = cell.interfered(move |call, number| match (call, number) {
        (Call::Complete, 1) => trouble,
        _ => Fate::Pass,
    });
    let script = Script::succeeding();
    let worker = C::charging_by(&bed, store, &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;

    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    assert!(script.attempts().iter().all(|attempt| *attempt == 1));
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// The answer to a completion is lost.
///
/// - does: atomic: finds out whether it has committed; leased: repeats the completion
/// - atomic: once
/// - leased: once
async fn a_commit_whose_answer_was_lost_is_found_out_and_not_repeated<C: Cell>() {
    commit_after::<C>(Fate::LoseAnswer).await;
}

/// A completion does not reach the store.
///
/// - does: atomic: rolls back, and runs the same attempt again; leased: repeats the completion
/// - atomic: once
/// - leased: once
async fn a_commit_that_did_not_reach_the_store_is_no_attempt<C: Cell>() {
    commit_after::<C>(Fate::Refuse).await;
}

/// An atomic handler holds SQLite's write lock for longer than its lease, so that no heartbeat can be written.
///
/// - does: lets it end: nobody else can take over
/// - atomic: once
#[tokio::test]
async fn a_handler_that_holds_the_write_lock_for_longer_than_its_lease_completes() {
    let bed = Bed::new().await;
    let ledger = Ledger::create().await;
    let script = Script::new(async |call| {
        if call.id == "slow" {
            tokio::time::sleep(Duration::from_millis(1500)).await;
        }
        Ok(())
    });
    let store = SqliteStore::connect(ledger.path()).await.unwrap();
    let policy = QUICK.to_builder().lease(Duration::from_millis(300)).build();
    let worker = Worker::builder(store).state(script.clone());
    let queue = bed.queue().policy(policy.unwrap());
    let worker = bed.start(worker.consume::<charge_atomically>(queue));
    // The handler's own lock keeps its heartbeat from being written.
    bed.order("slow").await;
    script.calls.count("the slow handler runs", 1).await;
    bed.order("b").await;

    worker.ended(Kind::Executed, 2).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 2)]);
    assert_eq!(attempts_charged(&ledger).await, [1, 1]);
    bed.assert_nothing_stuck().await;
}

/// An atomic handler's queue has a greater prefetch than the store has connections.
///
/// - does: says so at the start: messages beyond that wait for a connection
/// - atomic: once each
/// - settled by: `duplicates::many_copies_in_any_order_are_executed_once_each`
///
/// Stops before it has looked for its broker.
#[tokio::test]
async fn more_messages_at_once_than_connections_are_told_of_at_the_start() {
    let bed = Bed::bare().await;
    let ledger = Ledger::create().await;
    let store = SqliteStore::builder(ledger.path()).connections(3);
    let (wide, fits) = (bed.another("wide"), bed.another("fits"));
    let log = Log::default();
    let _logging = log.capture();
    let worker = Worker::builder(store.build().await.unwrap())
        .state(Script::new(|_| async { Ok(()) }))
        .consume::<charge_atomically>(Queue::quorum(&wide).prefetch(4))
        .consume::<charge_atomically>(Queue::quorum(&fits).prefetch(3))
        .build(bed.url())
        .unwrap();
    let health = worker.health();
    let ready = eventually("consuming", async || {
        let ready = health.is_ready();
        if ready {
            Ok(())
        } else {
            Err(health.to_string())
        }
    });
    worker.run_until(ready).await.unwrap();

    let text = log.text();
    let told: Vec<_> = text
        .lines()
        .filter(|line| line.contains("store-connections"))
        .collect();
    assert_eq!(told.len(), 1, "{text}");
    assert!(told[0].contains("INFO"), "{text}");
    for words in [&*wide, "4 messages", "runs 3 atomic", "raise"] {
        assert!(told[0].contains(words), "{words}: {text}");
    }
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
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    if NESTS.swap(false, SeqCst) {
        // On a busy machine the answer may be there at once: that one is only rolled back itself.
        while poll!(pin!(db.begin())).is_ready() {}
    }
    in_sqlite::write(db, &Charge::new(&order.id, attempt.number(), "here")).await?;
    script.play(order, attempt, delivery).await
}

/// An atomic handler on SQLite loses its transaction and goes on (a nested `db.begin()` that a time-out drops makes
/// sqlx roll everything back).
///
/// - does: refuses what it writes then (`SQLITE_CONSTRAINT_COMMITHOOK`); the attempt has failed
/// - atomic: once, after another attempt
#[tokio::test]
async fn an_atomic_handler_that_goes_on_without_its_transaction_writes_nothing_on_sqlite() {
    let (bed, ledger) = (Bed::new().await, Ledger::create().await);
    let store = SqliteStore::connect(ledger.path()).await.unwrap();
    let script = Script::succeeding();
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume::<nest_in_vain>(bed.queue()));
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    bed.until_settled().await;

    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    assert_eq!(script.attempts(), [2], "the first one could not write");
    assert_eq!(attempts_charged(&ledger).await, [2]);
    bed.assert_nothing_stuck().await;
}

atomic_on_each_store! {
    what_a_failed_atomic_handler_wrote_is_rolled_back,
    what_a_panicking_atomic_handler_wrote_is_rolled_back,
    what_a_rejecting_atomic_handler_wrote_is_rolled_back,
    a_commit_whose_answer_was_lost_is_found_out_and_not_repeated,
    a_commit_that_did_not_reach_the_store_is_no_attempt,
}
