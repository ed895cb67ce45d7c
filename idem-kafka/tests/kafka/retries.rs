//! Records that wait for another attempt in a topic of their own.

use std::time::Duration;

use idem_core::{
    MemoryStore, Policy, executor::ExecutionKind as Kind, handler::Backoff, store::StreamStore as _,
};
use idem_kafka::Ladder;

use crate::{
    bed::{Bed, Seen, note, note_by_place, order, until},
    reading::mark_of,
};

fn ladder() -> Ladder {
    Ladder::new([Duration::from_millis(500)]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_longer_goes_to_the_retry_topic_and_keeps_its_place() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (seen, name) = (Seen::default().failing("1", 1), topic.name().to_owned());
    let again = format!("{name}.retry");
    let offset = bed.send(&name, 0, Some("k"), &order(1)).await;
    bed.send(&name, 0, Some("k"), &order(2)).await;
    let topic = topic.retries(again.clone(), ladder());
    let worker = bed.worker::<note_by_place, _>(MemoryStore::new(), &seen, topic);
    seen.until_settled(3).await;
    let stats = worker.stop().await;
    // Its key is that of its place: were that of the retry topic, this would be another message's first attempt.
    assert_eq!(seen.begun(), ["1", "2", "1"]);
    assert_eq!((stats.retries, stats.count(Kind::Executed)), (1, 2));
    let waited = &bed.read(&again, 1).await[0];
    assert_eq!(waited.header("idem-offset"), offset.to_string());
    assert_eq!(
        (waited.header("idem-topic"), waited.header("idem-attempt")),
        (&*name, "1")
    );
    assert!(waited.header("idem-due").parse::<u64>().is_ok());
    assert_eq!(
        (waited.key.as_deref(), waited.body.as_deref()),
        (Some("k"), Some(&*order(1)))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_counted_over_the_retry_topic() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (seen, name) = (Seen::default().failing("1", 99), topic.name().to_owned());
    bed.send(&name, 0, None, &order(1)).await;
    let ladder = Ladder::new([Duration::from_millis(100)]).unwrap();
    let wait = Duration::from_millis(400);
    let policy = Policy::builder()
        .max_attempts(4)
        .backoff(Backoff::new(wait, wait))
        .build()
        .unwrap();
    let topic = topic
        .retries(format!("{name}.retry"), ladder)
        .policy(policy);
    let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic);
    crate::bed::until("it is given up", || seen.count(Kind::Exhausted) == 1).await;
    let stats = worker.stop().await;
    assert_eq!(
        (seen.begun().len(), stats.retries, stats.dead_letters),
        (4, 3, 1)
    );
    let letter = &bed.read(&format!("{name}.dead"), 1).await[0];
    assert_eq!(
        (letter.header("idem-topic"), letter.header("idem-offset")),
        (&*name, "0")
    );
    let [first, last] = ["idem-first-failure", "idem-last-failure"]
        .map(|name| letter.header(name).parse::<u128>().unwrap());
    // Each attempt waits for half of the backoff at least.
    assert!(last - first >= 3 * wait.as_millis() / 2, "{letter:?}");
}

/// A person copies a dead letter to the retry topic.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_is_sent_to_the_retry_topic_runs_again() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (seen, name) = (Seen::default().failing("1", 4), topic.name().to_owned());
    bed.send(&name, 0, None, &order(1)).await;
    let topic = topic.retries(format!("{name}.retry"), ladder());
    let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic);
    seen.until_settled(1).await;
    let letter = bed.read(&format!("{name}.dead"), 1).await.remove(0);
    let headers: Vec<_> = letter
        .headers
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    bed.send_with(
        &format!("{name}.retry"),
        0,
        None,
        letter.body.as_deref().unwrap(),
        &headers,
    )
    .await;
    seen.until_settled(2).await;
    worker.stop().await;
    assert_eq!((seen.begun().len(), seen.done().len()), (5, 1));
}

/// As if its worker had died when the copy was in the retry topic, and the mark was not saved.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_read_again_beside_its_copy_in_the_retry_topic_is_done_once() {
    let bed = Bed::new();
    let (topic, store) = (bed.topic("orders", 1).await, MemoryStore::new());
    let (seen, name) = (Seen::default().failing("1", 1), topic.name().to_owned());
    bed.send(&name, 0, None, &order(1)).await;
    let topic = topic.retries(format!("{name}.retry"), ladder());
    let worker = bed.worker::<note_by_place, _>(store.clone(), &seen, topic.clone());
    seen.until_settled(1).await;
    worker.stop().await;
    let mark = mark_of("kafka.place", &name, 0);
    store.set_mark(&mark, Some(0)).await.unwrap();

    let worker = bed.worker::<note_by_place, _>(store, &seen, topic);
    seen.until_settled(3).await;
    worker.stop().await;
    let counts = [Kind::Failed, Kind::Executed, Kind::Duplicate].map(|kind| seen.count(kind));
    assert_eq!((counts, seen.done().len()), ([1, 1, 1], 1));
}

/// The worker that has read it gives its partitions to another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_waits_in_the_retry_topic_is_done_by_whoever_has_its_partition_then() {
    let bed = Bed::new();
    let (topic, store) = (bed.topic("orders", 1).await, MemoryStore::new());
    let (seen, name) = (Seen::default().failing("1", 1), topic.name().to_owned());
    let again = format!("{name}.retry");
    // It is due after the rung, and may be attempted after half of the backoff at least.
    let (rung, backoff) = (Duration::from_secs(6), Duration::from_secs(12));
    let policy = Policy::builder().backoff(Backoff::new(backoff, backoff));
    let topic = topic
        .retries(again.clone(), Ladder::new([rung]).unwrap())
        .policy(policy.build().unwrap());
    let first = bed.worker::<note_by_place, _>(store.clone(), &seen, topic.clone());
    until("it has both topics", || {
        first.health.partitions().len() == 2
    })
    .await;
    bed.send(&name, 0, None, &order(1)).await;
    seen.until_settled(1).await;
    // The first one has its copy in hand by then, most likely.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let second = bed.worker::<note_by_place, _>(store.clone(), &seen, topic);
    first.stop().await;
    seen.until_settled(2).await;
    second.stop().await;
    let counts = [Kind::Failed, Kind::Executed].map(|kind| seen.count(kind));
    assert_eq!((counts, seen.done().len()), ([1, 1], 1));
    let looked = store
        .look_at_stream(&mark_of("kafka.place", &again, 0))
        .await;
    assert_eq!(looked.unwrap().unwrap().mark, Some(1));
}
