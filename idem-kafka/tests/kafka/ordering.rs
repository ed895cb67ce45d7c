//! Which records wait for each other.

use std::time::Duration;

use idem_core::MemoryStore;
use idem_kafka::Order;

use crate::bed::{Bed, Seen, note, order};

/// Ten records of each of three keys, in one partition.
async fn send(bed: &Bed, topic: &str) {
    for number in 0..30 {
        let key = ["a", "b", "c"][number % 3];
        bed.send(topic, 0, Some(key), &order(format!("{key}-{number:02}")))
            .await;
    }
}

fn of_key<'a>(begun: &'a [String], key: &str) -> Vec<&'a String> {
    begun.iter().filter(|id| id.starts_with(key)).collect()
}

fn is_in_order(ids: &[&String]) -> bool {
    ids.windows(2).all(|pair| pair[0] <= pair[1])
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_one_key_run_one_after_the_other_and_keys_at_once() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let seen = Seen::default()
        .taking(Duration::from_millis(20))
        .failing("a-03", 2);
    send(&bed, &topic.name()).await;
    let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic);
    seen.until_settled(30).await;
    worker.stop().await;
    let begun = seen.begun();
    for key in ["a", "b", "c"] {
        assert!(is_in_order(&of_key(&begun, key)), "{begun:?}");
    }
    assert_eq!((begun.len(), seen.most_running()), (32, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_records_of_a_partition_run_one_after_the_other_if_they_are_to() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await.order(Order::ByPartition);
    let seen = Seen::default()
        .taking(Duration::from_millis(5))
        .failing("b-04", 1);
    send(&bed, &topic.name()).await;
    let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic);
    seen.until_settled(30).await;
    worker.stop().await;
    let numbers: Vec<_> = seen.done().iter().map(|id| id[2..].to_owned()).collect();
    let expected: Vec<_> = (0..30).map(|number| format!("{number:02}")).collect();
    assert_eq!((numbers, seen.most_running()), (expected, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_record_waits_for_another_if_none_is_to() {
    let bed = Bed::new();
    let topic = bed
        .topic("orders", 1)
        .await
        .order(Order::Unordered)
        .concurrency(16);
    let seen = Seen::default().taking(Duration::from_millis(300));
    send(&bed, &topic.name()).await;
    let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic);
    seen.until_settled(30).await;
    worker.stop().await;
    assert_eq!((seen.done().len(), seen.most_running()), (30, 16));
}
