//! Stopping a worker.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use idem_amqp::{Failed, MemoryStore, Queue, Worker, executor::ExecutionKind as Kind};
use idem_tests::{
    atomic_on_each_store,
    bed::{Bed, QUICK},
    cell::Cell,
    interfered::{Call as Asked, Fate},
    journal::eventually,
    leased_on_each_store,
    ledger::Ledger,
    on_each_store,
    process::{Mode, Process, Settings},
    running::assert_balance,
    script::{Call, Script, charge},
};
use tokio::{sync::Semaphore, time::Instant};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

/// Until the next attempt of a failed message: longer than a worker takes to stop.
const LATER: Duration = Duration::from_secs(15);

/// Until a worker looks again at what it has held for a few seconds: at least.
const NEXT_LOOK: Duration = Duration::from_millis(2400);

/// For SIGTERM: they take ten seconds, longer than a busy machine may stall a process before it is told.
const ORDERS: usize = 400;

/// The worker is told to stop.
///
/// - does: starts nothing more, lets handlers end, acknowledges them, returns the rest
/// - atomic: once each
/// - leased: once each
///
/// In a vhost of its own: what waits for long on a ladder keeps all tests waiting that share it.
async fn a_worker_that_is_told_to_stop_finishes_what_runs_and_returns_the_rest<C: Cell>() {
    let (bed, cell) = (Bed::with_vhost().await, C::open().await);
    bed.declare(&bed.queue()).await;
    let go_on = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&go_on);
    let script = Script::new(move |call| {
        let gate = Arc::clone(&gate);
        async move {
            if call.id == "later" && call.attempt == 1 {
                return Err(Failed::retry_after(LATER, "closed for today"));
            }
            gate.acquire().await?.forget();
            Ok(())
        }
    });
    let worker = cell.worker(&script);
    let worker = bed.start(worker.consume::<C::Charge>(bed.queue().prefetch(2)));
    // First one that is neither done nor running, so that later ones are acked past it.
    for id in ["later", "slow-a", "slow-b", "slow-c", "slow-d", "slow-e"] {
        bed.order(id).await;
    }
    script.calls.count("two more handlers run", 3).await;
    let health = worker.health().clone();
    let drains = eventually("the worker drains", async || match health.to_string() {
        draining if draining == "draining" => Ok(()),
        seen => Err(seen),
    });
    let drains = async {
        drains.await;
        go_on.add_permits(6);
    };
    let (balance, ()) = tokio::join!(worker.stop(), drains);
    assert_eq!(balance.of(Kind::Executed), 2, "{balance}");
    let started = script.calls.entries().len();
    assert_eq!(started, 3, "one was started while draining");
    bed.until_waiting(4).await;

    let worker = cell.charging(&bed, &script);
    worker.ended(Kind::Executed, 4).await;
    // None of the two that were executed comes again.
    assert_balance(&worker.stop().await, [(Kind::Executed, 4)]);
    cell.assert_effects(
        &script,
        ["later", "slow-a", "slow-b", "slow-c", "slow-d", "slow-e"],
    )
    .await;
    bed.assert_nothing_stuck().await;
}

/// A handler is dropped when the grace period is over; how the next worker found its attempt.
async fn after_the_grace_period<C: Cell>() -> Call {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let policy = QUICK.to_builder().lease(Duration::from_millis(800)).build();
    let queue = bed.queue().policy(policy.unwrap());
    let hanging = Script::hanging();
    let worker = cell
        .worker(&hanging)
        .grace(Duration::from_millis(300))
        .consume::<C::Charge>(queue.clone());
    let worker = bed.start(worker);
    bed.order("a").await;
    hanging.calls.count("the handler runs", 1).await;
    assert_balance(&worker.stop().await, [(Kind::Interrupted, 1)]);
    assert_eq!(hanging.dropped.entries().len(), 1);
    bed.until_waiting(1).await;

    let script = Script::succeeding();
    let worker = bed.start(cell.worker(&script).consume::<C::Charge>(queue));
    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
    script.calls.entries()[0].clone()
}

/// A handler runs past the grace period.
///
/// - does: drops it, returns its message; leaves its lease to run out
/// - atomic: rolled back
/// - leased: in doubt
///
/// The lease was not released: whoever comes next waits until it has run out.
async fn a_handler_that_runs_past_the_grace_period_is_dropped_and_its_message_returned<C: Cell>() {
    let next = after_the_grace_period::<C>().await;
    assert_eq!(next.attempt, 2);
    assert!(next.in_doubt);
}

/// Shares the promise of `shutdown::a_handler_that_runs_past_the_grace_period_is_dropped_and_its_message_returned`.
async fn an_atomic_handler_that_runs_past_the_grace_period_is_rolled_back<C: Cell>() {
    let next = after_the_grace_period::<C>().await;
    assert!(!next.in_doubt);
}

/// A handler blocks its thread past the grace period.
///
/// - does: leaves the thread behind, and ends up to 7 s after the period; the message comes back
/// - atomic: in doubt
/// - leased: in doubt
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_handler_that_blocks_its_thread_is_left_behind_after_one_grace_period() {
    // Longer than the 7 s after it and what a busy machine may stall a process for.
    const GRACE: Duration = Duration::from_secs(15);
    let bed = Bed::new().await;
    let (release, released) = mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(released));
    let script = Script::new(move |_| {
        let blocked = Arc::clone(&blocked);
        async move {
            let _ = blocked.lock().unwrap().recv();
            Ok(())
        }
    });
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = worker.grace(GRACE).consume::<charge>(bed.queue());
    let worker = bed.start(worker);
    bed.order("a").await;
    script.calls.count("the handler runs", 1).await;
    let told = Instant::now();
    assert_balance(&worker.stop().await, [(Kind::Interrupted, 1)]);
    let took = told.elapsed();
    // Up to 7 s after the period, as documented at `WorkerBuilder::grace`: not another period.
    assert!(took < 2 * GRACE, "{took:?}");
    bed.until_waiting(1).await;
    drop(release);
    bed.delete(bed.name()).await;
    bed.assert_nothing_stuck().await;
}

/// The worker is told to stop while a message waits in it for its next attempt.
///
/// - does: returns it at once; the next worker runs it when it is due
/// - atomic: attempts kept
/// - leased: attempts kept
#[tokio::test]
async fn a_message_that_waits_for_its_next_attempt_is_returned_at_once() {
    let bed = Bed::new().await;
    let store = MemoryStore::new();
    let waiting_here = |script: &Script| {
        let worker = Worker::builder(store.clone()).state(script.clone());
        bed.start(worker.consume::<charge>(bed.queue().local_retries()))
    };
    let failing = Script::new(async |_| Err(Failed::retry_after(LATER, "closed for today")));
    let worker = waiting_here(&failing);
    bed.order("a").await;
    let calls = failing.calls.count("the first attempt", 1).await;
    let failed = calls[0].at;
    assert_balance(&worker.stop().await, [(Kind::Failed, 1)]);
    bed.until_waiting(1).await;
    assert!(failed.elapsed() < LATER, "it was not returned at once");

    // The next worker does not run it before it is due.
    let script = Script::succeeding();
    let worker = waiting_here(&script);
    worker.ended(Kind::Executed, 1).await;
    assert!(script.calls.entries()[0].at - failed >= LATER);
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    assert_eq!(script.attempts(), [2]);
    bed.assert_nothing_stuck().await;
}

/// The worker is told to stop while it keeps a copy of another worker's message.
///
/// - does: returns it at once
/// - atomic: not run
/// - leased: not run
async fn a_worker_that_only_holds_a_copy_stops_at_once<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let store = cell.interfered(|_, _| Fate::Pass);
    let go_on = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&go_on);
    let script = Script::new(move |_| {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await?.forget();
            Ok(())
        }
    });
    let queue = bed.queue().prefetch(1);
    let worker = Worker::builder(store.clone()).state(script.clone());
    let holder = bed.start(worker.consume::<C::Charge>(queue));
    bed.order("slow").await;
    script.calls.count("the holder runs", 1).await;

    let waiting = Script::succeeding();
    let other = C::charging_by(&bed, store.clone(), &waiting);
    bed.order("slow").await;
    // By then the next look is two and a half seconds away, or more.
    eventually(
        "the copy is looked at ever more rarely",
        async || match store.count(Asked::Claim) {
            few @ ..11 => Err(few),
            _ => Ok(()),
        },
    )
    .await;
    let (told, looks) = (Instant::now(), store.count(Asked::Claim));
    let balance = other.stop().await;
    let (took, looks) = (told.elapsed(), store.count(Asked::Claim) - looks);
    // On a busy machine it may take as long without a look.
    let waited = took >= NEXT_LOOK && looks > 0;
    assert!(!waited, "it waited for its next look: {took:?}");
    // The holder still runs, and does so until the copy is back in its queue.
    assert_eq!(balance.deliveries(), 1, "{balance}");
    let returned = balance.of(Kind::Conflict) + balance.of(Kind::Abandoned);
    assert_eq!(returned, 1, "{balance}");
    bed.until_waiting(1).await;
    go_on.add_permits(1);

    holder.ended(Kind::Executed, 1).await;
    holder.ended(Kind::Duplicate, 1).await;
    let ends = [(Kind::Executed, 1), (Kind::Duplicate, 1)];
    assert_balance(&holder.stop().await, ends);
    assert!(waiting.calls.entries().is_empty(), "the copy ran");
    cell.assert_effects(&script, ["slow"]).await;
    bed.assert_nothing_stuck().await;
}

/// The worker is told to stop, and there is nothing to do.
///
/// - does: stops at once
#[tokio::test]
async fn an_idle_worker_stops_at_once() {
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let worker = bed.charging(MemoryStore::new(), &script);
    bed.until_consumed(bed.name(), 1).await;
    let told = Instant::now();
    assert_balance(&worker.stop().await, []);
    assert!(told.elapsed() < Duration::from_secs(15));
    bed.assert_nothing_stuck().await;
}

/// SIGTERM in the middle of many messages: exit status 0, and nothing that was done comes again.
async fn sigterm(classic: bool, mode: Mode) {
    let bed = Bed::bare().await;
    let ledger = Ledger::create().await;
    let settings = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.classic = classic;
        settings.mode = mode;
        settings.work_ms = 200;
        // Handlers keep their leases on a busy machine, too.
        settings.lease_ms = 10_000;
    });
    let declare = if classic {
        Queue::classic
    } else {
        Queue::quorum
    };
    bed.declare(&declare(bed.name())).await;
    for number in 0..ORDERS {
        bed.order(&format!("o-{number}")).await;
    }
    let first = Process::start(LEDGER_WORKER, &settings);
    first.ended("executed", 5).await;
    let told = Instant::now();
    let done = first.stop().await;
    assert!(told.elapsed() < Duration::from_secs(20));
    let executed = ledger.count().await;
    assert!(
        done.contains(&("executed".into(), executed as u64)),
        "{done:?}"
    );
    assert!(executed < ORDERS, "it was told too late to prove anything");

    let second = Process::start(LEDGER_WORKER, &settings);
    second.ended("executed", ORDERS - executed).await;
    assert_eq!(
        second.stop().await,
        [("executed".into(), (ORDERS - executed) as u64)]
    );
    let mut charged: Vec<_> = ledger
        .charges()
        .await
        .into_iter()
        .map(|c| c.order_id)
        .collect();
    charged.sort();
    charged.dedup();
    assert_eq!(charged.len(), ORDERS, "lost");
    assert_eq!(ledger.count().await, ORDERS, "doubled");
    bed.assert_nothing_stuck().await;
}

/// SIGTERM under load.
///
/// - does: exits 0 within 20 s; nothing that was done comes again
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn sigterm_drains_a_worker_on_a_quorum_queue() {
    sigterm(false, Mode::Atomic).await;
}

/// Shares the promise of `shutdown::sigterm_drains_a_worker_on_a_quorum_queue`.
#[tokio::test]
async fn sigterm_drains_a_worker_on_a_classic_queue() {
    sigterm(true, Mode::Leased).await;
}

on_each_store! {
    a_worker_that_is_told_to_stop_finishes_what_runs_and_returns_the_rest,
    a_worker_that_only_holds_a_copy_stops_at_once,
}

leased_on_each_store! {
    a_handler_that_runs_past_the_grace_period_is_dropped_and_its_message_returned,
}

atomic_on_each_store! {
    an_atomic_handler_that_runs_past_the_grace_period_is_rolled_back,
}
