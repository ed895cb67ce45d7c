//! What this process knows by itself: the cache of completed keys, and what it did while the store
//! was away.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use idem_amqp::{
    Balance, Cached, ExecutionKind as Kind, MemoryStore, Policy, Queue, SqliteStore, Store,
    StoreOutage, Worker, WorkerBuilder, WorkerError,
    prelude::*,
    sqlx::{Connection as _, SqliteConnection, query},
};
use idem_tests::{
    bed::{Bed, QUICK, persistent},
    interfered::{Call, Fate, Interfered},
    journal::eventually,
    running::{Running, assert_balance},
    script::{Order, Script, charge},
};
use tokio::sync::Semaphore;

/// A store that is away while the switch is on.
fn switched(store: MemoryStore) -> (Interfered<MemoryStore>, Arc<AtomicBool>) {
    let away = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&away);
    let store = Interfered::new(store, move |_, _| {
        if switch.load(SeqCst) {
            Fate::Refuse
        } else {
            Fate::Pass
        }
    });
    (store, away)
}

fn fail_open() -> Policy {
    let policy = QUICK.to_builder().store_outage(StoreOutage::FailOpen);
    policy.build().unwrap()
}

fn failing_open<S: Store>(bed: &Bed, store: S, script: &Script) -> WorkerBuilder<S, Script> {
    let worker = Worker::builder(store).state(script.clone());
    worker.consume::<charge>(bed.queue().policy(fail_open()))
}

fn reports(balance: &Balance) -> (u64, u64, u64) {
    let reports = balance.reports();
    (reports.told(), reports.overtaken(), reports.pending())
}

/// Waits until nothing is left with the worker, while the store stays away.
async fn acknowledged(bed: &Bed, worker: &Running, kind: Kind) {
    worker.ended(kind, 1).await;
    bed.until_settled().await;
}

#[tokio::test]
async fn a_handler_that_fails_open_runs_while_the_store_is_away_and_the_store_is_told() {
    let bed = Bed::new().await;
    let shared = MemoryStore::new();
    let (store, away) = switched(shared.clone());
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

#[tokio::test]
async fn a_copy_that_comes_while_the_store_is_away_is_not_run_again() {
    let bed = Bed::new().await;
    let (store, away) = switched(MemoryStore::new());
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

#[tokio::test]
async fn a_copy_that_comes_when_the_store_is_back_is_not_run_again_before_or_after_the_report() {
    let bed = Bed::new().await;
    let reported = Arc::new(AtomicBool::new(false));
    let may_report = Arc::clone(&reported);
    // Away for the first claim; back then, but no completion gets through before the switch.
    let store = Interfered::new(MemoryStore::new(), move |call, number| match call {
        Call::Claim if number == 1 => Fate::Refuse,
        Call::Complete if !may_report.load(SeqCst) => Fate::Refuse,
        _ => Fate::Pass,
    });
    let script = Script::succeeding();
    let worker = bed.start(failing_open(&bed, store.clone(), &script));
    bed.order("a").await;
    worker.ended(Kind::Unprotected, 1).await;
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;

    reported.store(true, SeqCst);
    let claims = store.count(Call::Claim);
    eventually("a copy is looked up in the store", async || {
        bed.order("a").await;
        match store.count(Call::Claim) {
            more if more > claims => Ok(()),
            same => Err(same),
        }
    })
    .await;
    bed.until_settled().await;
    let balance = worker.stop().await;
    let copies = balance.deliveries() - 1;
    assert_balance(
        &balance,
        [(Kind::Unprotected, 1), (Kind::Duplicate, copies)],
    );
    assert_eq!(reports(&balance), (1, 0, 0));
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

#[tokio::test]
async fn a_handler_that_ends_while_the_store_is_away_gives_its_place_to_the_next() {
    let bed = Bed::new().await;
    let (store, away) = switched(MemoryStore::new());
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

#[tokio::test]
async fn a_handler_that_outlasts_the_outage_is_not_run_elsewhere() {
    let bed = Bed::new().await;
    let shared = MemoryStore::new();
    let (store, away) = switched(shared.clone());
    away.store(true, SeqCst);
    let done = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&done);
    let script = Script::new(move |_| {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.unwrap().forget();
            Ok(())
        }
    });
    let worker = bed.start(failing_open(&bed, store.clone(), &script));
    bed.order("a").await;
    eventually("the handler runs", async || match script.attempts().len() {
        1 => Ok(()),
        other => Err(other),
    })
    .await;
    away.store(false, SeqCst);
    eventually("the store knows of it", async || {
        match store.count(Call::Extend) {
            0 => Err(0),
            _ => Ok(()),
        }
    })
    .await;
    let elsewhere = bed.another("elsewhere");
    let (link, _) = switched(shared);
    let other = Worker::builder(link.clone()).state(script.clone());
    let other = bed.start(other.consume::<charge>(Queue::declare(&elsewhere).policy(QUICK)));
    bed.until_consumed(&elsewhere, 1).await;
    let copy = br#"{"id":"a","amount_cents":1299}"#;
    bed.send(&elsewhere, copy, persistent()).await;
    eventually("the copy is held", async || match link.count(Call::Claim) {
        enough if enough > 2 => Ok(()),
        few => Err(few),
    })
    .await;
    assert_eq!(script.attempts(), [1]);

    // Enough for two, should both run.
    done.add_permits(2);
    worker.ended(Kind::Unprotected, 1).await;
    other.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    assert_eq!(reports(&balance), (1, 0, 0));
    assert_eq!(other.stop().await.of(Kind::Duplicate), 1);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

#[tokio::test]
async fn a_report_that_finds_another_workers_completion_is_counted() {
    let bed = Bed::new().await;
    let shared = MemoryStore::new();
    let (cut_off, away) = switched(shared.clone());
    away.store(true, SeqCst);
    let script = Script::succeeding();
    let worker = bed.start(failing_open(&bed, cut_off, &script));
    bed.order("a").await;
    acknowledged(&bed, &worker, Kind::Unprotected).await;
    // The store is away from one worker only; the other does the work, too.
    let elsewhere = bed.another("elsewhere");
    let other = Worker::builder(shared).state(script.clone());
    let other = bed.start(other.consume::<charge>(Queue::declare(&elsewhere).policy(QUICK)));
    bed.until_consumed(&elsewhere, 1).await;
    let copy = br#"{"id":"a","amount_cents":1299}"#;
    bed.send(&elsewhere, copy, persistent()).await;
    other.ended(Kind::Executed, 1).await;

    away.store(false, SeqCst);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Unprotected, 1)]);
    assert_eq!(reports(&balance), (1, 1, 0));
    assert_balance(&other.stop().await, [(Kind::Executed, 1)]);
    script.assert_effects(["a", "a"]);
    bed.assert_nothing_stuck().await;
}

#[tokio::test]
async fn when_the_local_memory_is_full_further_messages_wait_for_the_store() {
    let bed = Bed::new().await;
    let (store, away) = switched(MemoryStore::new());
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

#[tokio::test]
async fn attempts_that_fail_while_the_store_is_away_are_counted_and_end() {
    let bed = Bed::new().await;
    let (store, away) = switched(MemoryStore::new());
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

#[tokio::test]
async fn a_worker_that_is_stopped_tells_the_store_within_its_grace_period() {
    let bed = Bed::new().await;
    let (store, away) = switched(MemoryStore::new());
    away.store(true, SeqCst);
    let script = Script::succeeding();
    let worker = bed.start(failing_open(&bed, store.clone(), &script));
    bed.order("a").await;
    acknowledged(&bed, &worker, Kind::Unprotected).await;
    let (balance, ()) = tokio::join!(worker.stop(), async {
        let claims = store.count(Call::Claim);
        eventually(
            "the store is asked while the worker stops",
            async || match store.count(Call::Claim) {
                more if more > claims + 2 => Ok(()),
                few => Err(few),
            },
        )
        .await;
        away.store(false, SeqCst);
    });
    assert_eq!(reports(&balance), (1, 0, 0));
    bed.assert_nothing_stuck().await;
}

#[tokio::test]
async fn what_the_store_was_not_told_before_the_process_ended_may_run_again() {
    let bed = Bed::new().await;
    let (store, away) = switched(MemoryStore::new());
    away.store(true, SeqCst);
    let script = Script::succeeding();
    let worker = failing_open(&bed, store.clone(), &script).grace(Duration::from_millis(100));
    let worker = bed.start(worker);
    bed.order("a").await;
    acknowledged(&bed, &worker, Kind::Unprotected).await;
    let balance = worker.stop().await;
    assert_eq!(reports(&balance), (0, 0, 1));

    // Its memory is gone; a new worker's is empty.
    let worker = bed.start(failing_open(&bed, store, &script));
    bed.order("a").await;
    worker.ended(Kind::Unprotected, 1).await;
    away.store(false, SeqCst);
    worker.stop().await;
    script.assert_effects(["a", "a"]);
    bed.assert_nothing_stuck().await;
}

#[idempotent(key = "id", scope = "orders.charge")]
async fn charge_atomically(order: Order, _db: &mut SqliteConnection) -> Result<(), Failed> {
    drop(order);
    Ok(())
}

#[tokio::test]
async fn an_atomic_handler_that_is_to_fail_open_ends_the_worker_with_a_clear_error() {
    let bed = Bed::new().await;
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::connect(folder.path().join("idem.db")).await;
    let queue = bed.queue().policy(fail_open());
    let worker = Worker::builder(store.unwrap()).consume::<charge_atomically>(queue);
    let error = bed.start(worker).failed().await;
    assert!(
        matches!(&error, WorkerError::AtomicFailsOpen { queue } if queue == bed.name()),
        "{error}"
    );
}

#[tokio::test]
async fn a_copy_that_comes_soon_is_answered_by_the_cache() {
    let bed = Bed::new().await;
    let (store, away) = switched(MemoryStore::new());
    let cached = Cached::new(store.clone());
    let script = Script::succeeding();
    let worker = bed.charging(cached.clone(), &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    // Not even a store that is away is in the way.
    away.store(true, SeqCst);
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;

    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    assert_eq!(store.count(Call::Claim), 1);
    assert_eq!((cached.stats().lookups(), cached.stats().hits()), (2, 1));
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// A store in a file, and a connection behind its back.
async fn in_a_file() -> (tempfile::TempDir, SqliteStore, SqliteConnection) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("idem.db");
    let store = SqliteStore::connect(&file).await.unwrap();
    let url = format!("sqlite:{}", file.display());
    let connection = SqliteConnection::connect(&url).await.unwrap();
    (folder, store, connection)
}

#[tokio::test]
async fn a_key_that_an_operator_forgets_runs_again_when_the_cache_has_forgotten_it_too() {
    let bed = Bed::new().await;
    let (_folder, store, mut operator) = in_a_file().await;
    let longest = Duration::from_millis(700);
    let cached = Cached::builder(store).longest(longest).build();
    let script = Script::succeeding();
    let worker = bed.charging(cached, &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    let forget = query("DELETE FROM idem_records").execute(&mut operator);
    assert_eq!(forget.await.unwrap().rows_affected(), 1);
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;
    tokio::time::sleep(longest).await;
    bed.order("a").await;
    worker.ended(Kind::Executed, 2).await;

    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::Duplicate, 1)]);
    script.assert_effects(["a", "a"]);
    bed.assert_nothing_stuck().await;
}

#[tokio::test]
async fn a_message_whose_record_cannot_be_read_is_held_and_the_others_go_on() {
    let bed = Bed::new().await;
    let (_folder, store, mut operator) = in_a_file().await;
    let script = Script::succeeding();
    let worker = bed.start(failing_open(&bed, store.clone(), &script));
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    let garble = query("UPDATE idem_records SET state = 'garbled'").execute(&mut operator);
    assert_eq!(garble.await.unwrap().rows_affected(), 1);
    bed.order("a").await;
    bed.order("b").await;
    worker.ended(Kind::Executed, 2).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::RecordCorrupt, 1)]);
    bed.until_waiting(1).await;

    // Mended, it is what it was.
    let mend = query("UPDATE idem_records SET state = 'completed'").execute(&mut operator);
    mend.await.unwrap();
    let worker = bed.charging(store, &script);
    worker.ended(Kind::Duplicate, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Duplicate, 1)]);
    script.assert_effects(["a", "b"]);
    bed.assert_nothing_stuck().await;
}
