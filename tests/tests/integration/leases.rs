//! Handlers that take longer than their lease.

use std::time::Duration;

use idem_amqp::{Worker, executor::ExecutionKind as Kind};
use idem_tests::{
    atomic_on_each_store,
    bed::{Bed, QUICK},
    cell::{Cell, LeasedOnMemory},
    interfered::{Call, Fate},
    journal::Journal,
    leased_on_each_store, on_each_store, on_further_stores,
    running::assert_balance,
    script::Script,
};
use tokio::time::Instant;

/// A third of it passes until the first heartbeat. The rest is longer than a busy machine may stall a process.
const LEASE: Duration = Duration::from_secs(9);
/// More than twice that.
const LONG: Duration = Duration::from_secs(20);

/// A handler takes more than twice its lease; a copy waits at another worker for it to run out.
async fn long_work<C: Cell>(script: Script) {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let policy = QUICK.to_builder().lease(LEASE).build();
    let queue = bed
        .queue()
        .prefetch(2)
        .concurrency(1)
        .policy(policy.unwrap());
    let start = || bed.start(cell.worker(&script).consume::<C::Charge>(queue.clone()));
    let first = start();
    bed.order("slow").await;
    script.calls.count("the handler runs", 1).await;
    let second = start();
    bed.order("slow").await;
    script.effects.count("the handler ends", 1).await;

    first.ended(Kind::Executed, 1).await;
    bed.until_waiting(0).await;
    let (first, second) = (first.stop().await, second.stop().await);
    assert_eq!(first.of(Kind::LeaseLost), 0, "{first}");
    assert_eq!(script.attempts(), [1], "{second}");
    cell.assert_effects(&script, ["slow"]).await;
    // The copy may have been returned by the shutdown: whoever comes next sees a duplicate.
    let third = start();
    bed.until_consumed(bed.name(), 1).await;
    let duplicates = first.of(Kind::Duplicate) + second.of(Kind::Duplicate);
    if duplicates == 0 {
        third.ended(Kind::Duplicate, 1).await;
    }
    let third = third.stop().await;
    assert_eq!(duplicates + third.of(Kind::Duplicate), 1);
    bed.assert_nothing_stuck().await;
}

/// A handler takes longer than its lease.
///
/// - does: extends the lease by a heartbeat
/// - atomic: once
/// - leased: once
async fn a_handler_that_takes_longer_than_its_lease_keeps_it<C: Cell>() {
    long_work::<C>(Script::new(async |_| {
        tokio::time::sleep(LONG).await;
        Ok(())
    }))
    .await;
}

/// A handler blocks its thread for longer than its lease.
///
/// - does: extends the lease: the heartbeat is a task of its own, from the first time that it is due
/// - atomic: once
/// - leased: once
/// - settled by: `leases::a_handler_that_takes_longer_than_its_lease_keeps_it`
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_blocks_its_thread_keeps_its_lease() {
    long_work::<LeasedOnMemory>(Script::new(async |_| {
        std::thread::sleep(LONG);
        Ok(())
    }))
    .await;
}

/// A worker vanishes.
///
/// - does: gives the key to the first who asks after the end of the lease. An atomic handler's claim is committed
///   before its transaction: the transaction ends with the worker, and the lease has to run out all the same
/// - atomic: once, not in doubt
/// - leased: in doubt
///
/// Looks at a held key come ever more rarely: what counts is that the first one after the end of the lease is
/// answered with the key, and none before.
async fn the_next_worker_takes_over_as_soon_as_the_lease_of_a_vanished_one_has_run_out<C: Cell>() {
    /// Longer than a busy machine may stall a process: the next worker asks before it has run out.
    const LEASE: Duration = Duration::from_secs(8);
    let (bed, cell) = (Bed::new().await, C::open().await);
    let queue = bed
        .queue()
        .policy(QUICK.to_builder().lease(LEASE).build().unwrap());
    let looks = Journal::default();
    let worker = |script: &Script| {
        let journal = looks.clone();
        let store = cell.interfered(move |call, _| {
            if call == Call::Claim {
                journal.write(Instant::now());
            }
            Fate::Pass
        });
        let worker = Worker::builder(store).state(script.clone());
        bed.start(worker.consume::<C::Charge>(queue.clone()))
    };
    let hanging = Script::hanging();
    let vanishing = worker(&hanging);
    bed.order("a").await;
    hanging.calls.count("the handler runs", 1).await;
    let script = Script::succeeding();
    let next = worker(&script);
    bed.until_consumed(bed.name(), 2).await;
    vanishing.vanish().await;
    let vanished = Instant::now();

    next.ended(Kind::Executed, 1).await;
    let calls = script.calls.entries();
    let looks = looks.entries();
    let (claimed, held) = (looks[0], &looks[1..looks.len() - 1]);
    assert!(
        calls[0].at >= claimed + LEASE,
        "too early: {looks:?} {calls:?}"
    );
    assert!(!held.is_empty(), "nobody had to wait: {looks:?}");
    let too_late = held.iter().find(|look| **look > vanished + LEASE);
    assert_eq!(
        too_late, None,
        "held after the lease had run out: {looks:?}"
    );
    assert_balance(&next.stop().await, [(Kind::Executed, 1)]);
    assert_eq!(script.attempts(), [2]);
    assert!(calls[0].in_doubt, "{calls:?}");
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `leases::the_next_worker_takes_over_as_soon_as_the_lease_of_a_vanished_one_has_run_out`.
///
/// Its transaction went with it, and what it wrote. Its claim was committed before, and its lease has to run out.
async fn an_atomic_worker_that_vanished_is_followed_by_one_that_doubts_nothing<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let lease = Duration::from_secs(2);
    let policy = QUICK.to_builder().lease(lease).build();
    let queue = bed.queue().policy(policy.unwrap());
    let hanging = Script::hanging();
    let vanishing = cell.worker(&hanging).consume::<C::Charge>(queue.clone());
    let vanishing = bed.start(vanishing);
    let sent = Instant::now();
    bed.order("a").await;
    hanging.calls.count("the handler runs", 1).await;
    vanishing.vanish().await;

    let script = Script::succeeding();
    let next = bed.start(cell.worker(&script).consume::<C::Charge>(queue));
    next.ended(Kind::Executed, 1).await;
    assert_balance(&next.stop().await, [(Kind::Executed, 1)]);
    let calls = script.calls.entries();
    assert!(calls[0].at >= sent + lease, "too early: {calls:?}");
    assert!(!calls[0].in_doubt, "{calls:?}");
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

on_each_store! {
    a_handler_that_takes_longer_than_its_lease_keeps_it,
}

leased_on_each_store! {
    the_next_worker_takes_over_as_soon_as_the_lease_of_a_vanished_one_has_run_out,
}

atomic_on_each_store! {
    an_atomic_worker_that_vanished_is_followed_by_one_that_doubts_nothing,
}

on_further_stores! {
    a_handler_that_takes_longer_than_its_lease_keeps_it,
}
