//! Workers that share a topic's partitions.

use std::time::Duration;

use idem_core::{MemoryStore, executor::ExecutionKind as Kind, store::StreamStore as _};

use crate::{
    bed::{Bed, Seen, note, order, until},
    reading::mark_of,
};

async fn send(bed: &Bed, topic: &str, numbers: std::ops::Range<i32>) {
    for number in numbers {
        bed.send(topic, number % 4, None, &order(number)).await;
    }
}

fn partitions_of(worker: &crate::bed::Running) -> usize {
    worker.health.partitions().len()
}

/// A worker joins one that reads all partitions of a topic, and the first one stops, while records come.
///
/// - does: shares the partitions, and goes on from the mark of each
/// - effect: once each
#[tokio::test(flavor = "multi_thread")]
async fn partitions_move_to_a_worker_that_joins_and_nothing_runs_twice() {
    let bed = Bed::new();
    let (topic, store) = (bed.topic("orders", 4).await, MemoryStore::new());
    let seen = Seen::default().taking(Duration::from_millis(20));
    let name = topic.name().to_owned();
    send(&bed, &name, 0..100).await;
    let first = bed.worker::<note, _>(store.clone(), &seen, topic.clone().concurrency(2));
    seen.until_settled(20).await;
    let second = bed.worker::<note, _>(store, &seen, topic.concurrency(2));
    until("both have partitions", || {
        partitions_of(&first) == 2 && partitions_of(&second) == 2
    })
    .await;
    send(&bed, &name, 100..140).await;
    until("all are done", || seen.done().len() >= 140).await;
    first.stop().await;
    until("the other one has all", || partitions_of(&second) == 4).await;
    send(&bed, &name, 140..160).await;
    until("all are done", || seen.done().len() >= 160).await;
    second.stop().await;
    let mut done = seen.done();
    assert_eq!(done.len(), 160, "nothing ran twice");
    done.sort();
    done.dedup();
    assert_eq!(done.len(), 160, "nothing was lost");
}

/// A rebalance takes partitions away in the middle of handlers.
///
/// - does: lets them end under the leases of their keys; the new owner reads their records again, waits, and takes them for
///   duplicates
/// - effect: once each
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_whose_partition_is_taken_away_ends_and_does_not_run_again() {
    let bed = Bed::new();
    let (topic, store) = (bed.topic("orders", 4).await, MemoryStore::new());
    let slow = Seen::default().gated();
    let other = Seen::default();
    let name = topic.name().to_owned();
    send(&bed, &name, 0..4).await;
    let first = bed.worker::<note, _>(store.clone(), &slow, topic.clone());
    until("all four run", || slow.begun().len() == 4).await;
    let second = bed.worker::<note, _>(store, &other, topic);
    until("both have partitions", || {
        partitions_of(&first) == 2 && partitions_of(&second) == 2
    })
    .await;
    slow.open(4);
    until("all are done", || slow.done().len() == 4).await;
    other.until_settled(2).await;
    first.stop().await;
    second.stop().await;
    assert_eq!(other.count(Kind::Duplicate), 2);
    assert!(other.begun().is_empty());
}

/// Shares the promise of
/// `kafka::crashes::a_worker_that_dies_at_any_point_of_a_record_is_followed_as_the_table_says`.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_that_died_had_in_hand_is_handled_by_the_next_one() {
    let bed = Bed::new();
    let (topic, store) = (bed.topic("orders", 4).await, MemoryStore::new());
    let stuck = Seen::default().taking(Duration::from_hours(1));
    let seen = Seen::default();
    let name = topic.name().to_owned();
    send(&bed, &name, 0..8).await;
    let first = bed.worker::<note, _>(store.clone(), &stuck, topic.clone());
    until("all run", || stuck.begun().len() == 8).await;
    first.die().await;
    let second = bed.worker::<note, _>(store, &seen, topic);
    seen.until_settled(8).await;
    second.stop().await;
    assert_eq!((stuck.done().len(), seen.done().len()), (0, 8));
}

/// Kafka assigns a partition that another worker, which Kafka has forgotten, has in the store still.
///
/// - does: stands by until that claim runs out, and reads then; the other one moves no mark any more
/// - effect: once each
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_taken_over_moves_no_mark() {
    use idem_core::store::{Owner, StreamClaim, Write};
    let bed = Bed::new();
    let (topic, store, seen) = (
        bed.topic("orders", 1).await,
        MemoryStore::new(),
        Seen::default(),
    );
    let name = topic.name().to_owned();
    let mark = mark_of("kafka.note", &name, 0);
    let zombie = store
        .claim_stream(&mark, Owner::new(), Duration::from_secs(10))
        .await
        .unwrap();
    let StreamClaim::Acquired { lease, .. } = zombie else {
        panic!("{zombie:?}")
    };
    bed.send(&name, 0, None, &order(0)).await;
    let worker = bed.worker::<note, _>(store.clone(), &seen, topic);
    until("it stands by", || {
        let partitions = worker.health.partitions();
        partitions
            .iter()
            .any(|one| one.state == idem_kafka::PartitionState::StandingBy)
    })
    .await;
    assert_eq!(seen.all_settled(), 0);
    // Its lease runs out.
    seen.until_settled(1).await;
    let written = store
        .extend_stream(&lease, Some(77), Duration::from_secs(9))
        .await
        .unwrap();
    assert_eq!(written, Write::Fenced);
    worker.stop().await;
    assert_eq!(
        store.look_at_stream(&mark).await.unwrap().unwrap().mark,
        Some(1)
    );
}
