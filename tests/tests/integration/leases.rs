//! Handlers that take longer than their lease.

use std::time::Duration;

use idem_amqp::{ExecutionKind as Kind, MemoryStore, Worker};
use idem_tests::{
    bed::{Bed, QUICK},
    running::assert_balance,
    script::{Script, charge},
};

/// A handler takes more than twice its lease; a copy waits at another worker for it to run out.
async fn long_work(script: Script) {
    let bed = Bed::new().await;
    let store = MemoryStore::new();
    let policy = QUICK.to_builder().lease(Duration::from_secs(2)).build();
    let queue = bed
        .queue()
        .prefetch(2)
        .concurrency(1)
        .policy(policy.unwrap());
    let start = || {
        let worker = Worker::builder(store.clone()).state(script.clone());
        bed.start(worker.consume::<charge>(queue.clone()))
    };
    let first = start();
    bed.order("a").await;
    script.calls.count("the handler runs", 1).await;
    let second = start();
    bed.order("a").await;
    script.effects.count("the handler ends", 1).await;

    first.ended(Kind::Executed, 1).await;
    bed.until_waiting(0).await;
    let (first, second) = (first.stop().await, second.stop().await);
    assert_eq!(first.of(Kind::LeaseLost), 0, "{first}");
    assert_eq!(script.attempts(), [1], "{second}");
    script.assert_effects(["a"]);
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

#[tokio::test]
async fn a_handler_that_takes_longer_than_its_lease_keeps_it() {
    long_work(Script::new(async |_| {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(())
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_blocks_its_thread_keeps_its_lease() {
    long_work(Script::new(async |_| {
        std::thread::sleep(Duration::from_secs(5));
        Ok(())
    }))
    .await;
}

#[tokio::test]
async fn the_next_worker_takes_over_as_soon_as_the_lease_of_a_vanished_one_has_run_out() {
    let bed = Bed::new().await;
    let store = MemoryStore::new();
    let policy = QUICK.to_builder().lease(Duration::from_secs(1)).build();
    let queue = bed.queue().policy(policy.unwrap());
    let hanging = Script::hanging();
    let vanishing = Worker::builder(store.clone()).state(hanging.clone());
    let vanishing = bed.start(vanishing.consume::<charge>(queue.clone()));
    bed.order("a").await;
    hanging.calls.count("the handler runs", 1).await;
    vanishing.vanish().await;
    let vanished = tokio::time::Instant::now();

    let script = Script::succeeding();
    let next = Worker::builder(store).state(script.clone());
    let next = bed.start(next.consume::<charge>(queue));
    next.ended(Kind::Executed, 1).await;
    assert!(
        vanished.elapsed() < Duration::from_secs(15),
        "{:?}",
        vanished.elapsed()
    );
    assert_balance(&next.stop().await, [(Kind::Executed, 1)]);
    assert_eq!(script.attempts(), [2]);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}
