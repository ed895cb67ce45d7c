//! Handlers that fail open: they run without the store while it is away, which is then told.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use idem_amqp::{
    BuildError, MemoryStore, Policy, RunError, SqliteStore, Worker, WorkerBuilder,
    executor::ExecutionKind as Kind, handler::StoreOutage, prelude::*, sqlx::SqliteConnection,
    store::Purge, worker::WorkerStats,
};
use idem_tests::{
    bed::{Bed, QUICK},
    interfered::{Call, Interfered},
    journal::eventually,
    running::{Running, assert_balance},
    script::{Order, Script, charge},
};

fn fail_open() -> Policy {
    let policy = QUICK.to_builder().store_outage(StoreOutage::FailOpen);
    policy.build().unwrap()
}

pub(super) fn failing_open<S: Purge + Clone>(
    bed: &Bed,
    store: S,
    script: &Script,
) -> WorkerBuilder<S, Script> {
    let worker = Worker::builder(store).state(script.clone());
    worker.consume::<charge>(bed.queue().policy(fail_open()))
}

/// Told, overtaken, pending.
pub(super) fn reports(balance: &WorkerStats) -> (u64, u64, u64) {
    let reports = balance.unprotected();
    (reports.told(), reports.overtaken(), reports.pending())
}

/// Waits until nothing is left with the worker, while the store stays away.
pub(super) async fn acknowledged(bed: &Bed, worker: &Running, kind: Kind) {
    worker.ended(kind, 1).await;
    bed.until_settled().await;
}

/// The store is away, and the handler fails open.
///
/// - does: runs the message, acknowledges it, tells the store later
/// - leased: once, if nobody else runs it
#[tokio::test]
async fn a_handler_that_fails_open_runs_while_the_store_is_away_and_the_store_is_told() {
    let bed = Bed::new().await;
    let shared = MemoryStore::new();
    let (store, away) = Interfered::switched(shared.clone());
    away.store(true, SeqCst);
    let script = Script::succeeding();
    let worker = bed.start(failing_open(&bed, store, &script));
    bed.order("a").await;
    acknowledged(&bed, &worker, Kind::Unprotected).await;

    away.store(false, SeqCst);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Unprotected, 1)]);
    assert_eq!(reports(&balance), (1, 0, 0));
    // Another worker knows it from the store.
    let other = bed.charging(shared, &script);
    bed.order("a").await;
    other.ended(Kind::Duplicate, 1).await;
    assert_balance(&other.stop().await, [(Kind::Duplicate, 1)]);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// Copies come while the store is away, and the handler fails open.
///
/// - does: lets copies of what runs wait, acknowledges copies of what is done
/// - leased: once in this process
#[tokio::test]
async fn a_copy_that_comes_while_the_store_is_away_is_not_run_again() {
    let bed = Bed::new().await;
    let (store, away) = Interfered::switched(MemoryStore::new());
    away.store(true, SeqCst);
    let script = Script::new(async |_| {
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(())
    });
    let worker = bed.start(failing_open(&bed, store, &script));
    for _ in 0..3 {
        bed.order("a").await;
    }
    worker.ended(Kind::Duplicate, 2).await;

    away.store(false, SeqCst);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Unprotected, 1), (Kind::Duplicate, 2)]);
    assert_eq!(reports(&balance), (1, 0, 0));
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// The store goes away while handlers that fail open run.
///
/// - does: lets them go on and end, acknowledges them, takes further messages in their place, tells the store later
/// - leased: once, if nobody else runs it
#[tokio::test]
async fn a_handler_that_ends_while_the_store_is_away_gives_its_place_to_the_next() {
    let bed = Bed::new().await;
    let (store, away) = Interfered::switched(MemoryStore::new());
    let switch = Arc::clone(&away);
    // The store goes away while the first order runs.
    let script = Script::new(move |_| {
        switch.store(true, SeqCst);
        async { Ok(()) }
    });
    let worker = Worker::builder(store).state(script.clone());
    let queue = bed.queue().policy(fail_open()).prefetch(1);
    let worker = bed.start(worker.consume::<charge>(queue));
    bed.order("a").await;
    bed.order("b").await;
    worker.ended(Kind::Unprotected, 2).await;
    bed.until_settled().await;

    away.store(false, SeqCst);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Unprotected, 2)]);
    assert_eq!(reports(&balance), (2, 0, 0));
    script.assert_effects(["a", "b"]);
    bed.assert_nothing_stuck().await;
}

/// The local memory is full.
///
/// - does: forgets nothing; further messages wait for the store
/// - leased: once
#[tokio::test]
async fn when_the_local_memory_is_full_further_messages_wait_for_the_store() {
    let bed = Bed::new().await;
    let (store, away) = Interfered::switched(MemoryStore::new());
    away.store(true, SeqCst);
    let script = Script::succeeding();
    let worker = failing_open(&bed, store.clone(), &script).local_memory(1000);
    let worker = bed.start(worker);
    bed.order("a").await;
    acknowledged(&bed, &worker, Kind::Unprotected).await;
    let claims = store.count(Call::Claim);
    bed.order("b").await;
    eventually(
        "the store is asked for the second again and again",
        async || match store.count(Call::Claim) - claims {
            enough if enough > 4 => Ok(()),
            few => Err(few),
        },
    )
    .await;
    script.assert_effects(["a"]);

    away.store(false, SeqCst);
    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Unprotected, 1), (Kind::Executed, 1)]);
    script.assert_effects(["a", "b"]);
    bed.assert_nothing_stuck().await;
}

/// Attempts of a handler that fails open fail while the store is away.
///
/// - does: counts them in the worker, waits between them, dead-letters after the last, tells the store of each
/// - leased: as a failure
#[tokio::test]
async fn attempts_that_fail_while_the_store_is_away_are_counted_and_end() {
    let bed = Bed::new().await;
    let (store, away) = Interfered::switched(MemoryStore::new());
    away.store(true, SeqCst);
    let script = Script::new(async |_| Err(Failed::retry("the gateway is down")));
    let worker = bed.start(failing_open(&bed, store, &script));
    bed.order("a").await;
    worker.ended(Kind::Exhausted, 1).await;
    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "exhausted");
    let attempts = u64::from(QUICK.max_attempts());

    away.store(false, SeqCst);
    let balance = worker.stop().await;
    let failed = [(Kind::Failed, attempts - 1), (Kind::Exhausted, 1)];
    assert_balance(&balance, failed);
    assert_eq!(reports(&balance), (attempts, 0, 0));
    bed.assert_nothing_stuck().await;
}

#[idempotent(key = "id", scope = "orders.charge")]
async fn charge_atomically(order: Order, _db: &mut SqliteConnection) -> Result<(), Failed> {
    drop(order);
    Ok(())
}

/// An atomic handler is to fail open.
///
/// - does: ends with an error that says so (written as an argument, it does not compile)
#[tokio::test]
async fn an_atomic_handler_that_is_to_fail_open_ends_the_worker_with_a_clear_error() {
    let bed = Bed::new().await;
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::connect(folder.path().join("idem.db")).await;
    let queue = bed.queue().policy(fail_open());
    let worker = Worker::builder(store.unwrap()).consume::<charge_atomically>(queue);
    let error = bed.start(worker).failed().await;
    assert!(
        matches!(&error, RunError::Build(BuildError::AtomicFailsOpen { queue }) if queue == bed.name()),
        "{error}"
    );
}
