//! What a worker remembers of its handlers while the store is away, and tells it afterwards.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use idem_amqp::{MemoryStore, Queue, Worker, executor::ExecutionKind as Kind};
use idem_tests::{
    bed::{Bed, QUICK, persistent},
    interfered::{Call, Fate, Interfered},
    journal::eventually,
    running::assert_balance,
    script::{Script, charge},
};
use tokio::sync::Semaphore;

use super::fail_open::{acknowledged, failing_open, reports};

/// Copies come when the store is back, and the handler has failed open.
///
/// - does: decides from local memory before the report to the store, from the store after it
/// - leased: once
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

/// The store is back while a handler still runs without it.
///
/// - does: claims its key and extends the lease; copies at other workers wait
/// - leased: once
#[tokio::test]
async fn a_handler_that_outlasts_the_outage_is_not_run_elsewhere() {
    let bed = Bed::new().await;
    let shared = MemoryStore::new();
    let (store, away) = Interfered::switched(shared.clone());
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
    let (link, _) = Interfered::switched(shared);
    let other = Worker::builder(link.clone()).state(script.clone());
    let other = bed.start(other.consume::<charge>(Queue::quorum(&elsewhere).policy(QUICK)));
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

/// Another worker has done the same work before the report to the store.
///
/// - does: leaves its completion as it is, warns and counts
/// - leased: twice
#[tokio::test]
async fn a_report_that_finds_another_workers_completion_is_counted() {
    let bed = Bed::new().await;
    let shared = MemoryStore::new();
    let (cut_off, away) = Interfered::switched(shared.clone());
    away.store(true, SeqCst);
    let script = Script::succeeding();
    let worker = bed.start(failing_open(&bed, cut_off, &script));
    bed.order("a").await;
    acknowledged(&bed, &worker, Kind::Unprotected).await;
    // The store is away from one worker only; the other does the work, too.
    let elsewhere = bed.another("elsewhere");
    let other = Worker::builder(shared).state(script.clone());
    let other = bed.start(other.consume::<charge>(Queue::quorum(&elsewhere).policy(QUICK)));
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

/// The worker is stopped before the store was told what was done without it.
///
/// - does: goes on telling the store within the grace period
/// - leased: once
#[tokio::test]
async fn a_worker_that_is_stopped_tells_the_store_within_its_grace_period() {
    let bed = Bed::new().await;
    let (store, away) = Interfered::switched(MemoryStore::new());
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

/// The store does not come back within the grace period.
///
/// - does: logs the keys
/// - leased: runs again
#[tokio::test]
async fn what_the_store_was_not_told_before_the_process_ended_may_run_again() {
    let bed = Bed::new().await;
    let (store, away) = Interfered::switched(MemoryStore::new());
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
