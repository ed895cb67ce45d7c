//! Which records wait for each other.

use std::time::Duration;

use idem_core::{Failed, MemoryStore, State, executor::RunsOn, handler::Handler, idempotent};
use idem_kafka::Ladder;

use crate::bed::{Bed, Order, Seen, note, order, until};

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
    send(&bed, topic.name()).await;
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
    let topic = bed
        .topic("orders", 1)
        .await
        .order(idem_kafka::Order::ByPartition);
    let seen = Seen::default()
        .taking(Duration::from_millis(5))
        .failing("b-04", 1);
    send(&bed, topic.name()).await;
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
        .order(idem_kafka::Order::Unordered)
        .concurrency(16);
    let seen = Seen::default().taking(Duration::from_millis(300));
    send(&bed, topic.name()).await;
    let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic);
    seen.until_settled(30).await;
    worker.stop().await;
    assert_eq!((seen.done().len(), seen.most_running()), (30, 16));
}

#[idempotent(
    key = "id",
    ordered_by = header("account"),
    scope = "kafka.books",
    backoff = "300ms..300ms"
)]
async fn post(order: Order, State(seen): State<Seen>) -> Result<(), Failed> {
    seen.work(&order.id).await
}

#[idempotent(
    key = "id",
    ordered_by = header("account"),
    overtake = "failed",
    scope = "kafka.books",
    backoff = "300ms..300ms"
)]
async fn post_overtaking(order: Order, State(seen): State<Seen>) -> Result<(), Failed> {
    seen.work(&order.id).await
}

/// Ten records of each of two accounts, each with a record key of its own; one fails, and the retry topic has a rung
/// for it.
async fn posted_to_a<H>() -> Vec<String>
where
    H: Handler<Seen, Mode: RunsOn<MemoryStore>>,
{
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let ladder = Ladder::new([Duration::from_millis(100)]).unwrap();
    let again = format!("{}.retry", topic.name());
    let topic = topic.retries(again, ladder);
    let seen = Seen::default()
        .taking(Duration::from_millis(5))
        .failing("a-03", 1);
    for number in 0..10 {
        for account in ["a", "b"] {
            let (key, body) = (number.to_string(), order(format!("{account}-{number:02}")));
            let headers = [("account", account)];
            bed.send_with(topic.name(), 0, Some(&key), &body, &headers)
                .await;
        }
    }
    let worker = bed.worker::<H, _>(MemoryStore::new(), &seen, topic);
    until("all are posted", || seen.done().len() == 20).await;
    worker.stop().await;
    assert_eq!(seen.most_running(), 2);
    let done = seen.done();
    assert!(is_in_order(&of_key(&done, "b")), "{done:?}");
    of_key(&done, "a").into_iter().cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn records_run_in_the_order_that_their_handler_asks_for_and_wait_for_a_failed_one() {
    let expected: Vec<_> = (0..10).map(|number| format!("a-{number:02}")).collect();
    assert_eq!(posted_to_a::<post>().await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_record_goes_to_the_retry_topic_if_others_may_overtake_it() {
    let last = posted_to_a::<post_overtaking>().await.pop();
    assert_eq!(last.as_deref(), Some("a-03"));
}
