//! Records are handled once, from where the handler was.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::join_all;
use idem_core::{
    Failed, Key, MemoryStore, State, executor::ExecutionKind as Kind, idempotent,
    store::StreamStore as _,
};
use idem_kafka::{KafkaWorker, PartitionState};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tokio::time::sleep;

use crate::{
    bed::{Bed, Order, Running, Seen, note, note_by_place, order, until},
    crashes::until_committed,
};

#[tokio::test(flavor = "multi_thread")]
async fn each_record_is_handled_once() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 3).await;
    let (seen, name) = (Seen::default(), topic.name().to_owned());
    for number in 0..60 {
        bed.send(&name, number % 3, None, &order(number)).await;
    }
    // Copies, of another key and elsewhere.
    for number in 0..10 {
        bed.send(&name, 2, Some("copy"), &order(number)).await;
    }
    let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic);
    seen.until_settled(70).await;
    let stats = worker.stop().await;
    assert_eq!(
        (stats.count(Kind::Executed), stats.count(Kind::Duplicate)),
        (60, 10)
    );
    let mut done = seen.done();
    done.sort();
    done.dedup();
    assert_eq!(done.len(), 60);
}

/// A worker stops and starts again.
///
/// - does: saves the mark and gives the partition back; goes on from there
/// - effect: once each
#[tokio::test(flavor = "multi_thread")]
async fn a_start_goes_on_from_the_mark() {
    let bed = Bed::new();
    let (topic, store, seen) = (
        bed.topic("orders", 1).await,
        MemoryStore::new(),
        Seen::default(),
    );
    let name = topic.name().to_owned();
    for number in 0..5 {
        bed.send(&name, 0, None, &order(number)).await;
    }
    let worker = bed.worker::<note, _>(store.clone(), &seen, topic.clone());
    seen.until_settled(5).await;
    worker.stop().await;
    let mark = store
        .look_at_stream(&mark_of("kafka.note", &name, 0))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (mark.mark, mark.remaining),
        (Some(5), Duration::ZERO),
        "saved, and given back"
    );

    for number in 5..8 {
        bed.send(&name, 0, None, &order(number)).await;
    }
    let worker = bed.worker::<note, _>(store, &seen, topic);
    seen.until_settled(8).await;
    worker.stop().await;
    let mut done = seen.done();
    done.sort();
    assert_eq!(done, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    assert_eq!(
        seen.count(Kind::Duplicate),
        0,
        "what is below the mark is not read"
    );
}

/// A person sets the mark of a partition back to its beginning.
///
/// - does: reads all again, and knows all of it
/// - effect: once each
#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_is_set_back_has_all_read_again_and_none_run() {
    let bed = Bed::new();
    let (topic, store, seen) = (
        bed.topic("orders", 1).await,
        MemoryStore::new(),
        Seen::default(),
    );
    let name = topic.name().to_owned();
    for number in 0..5 {
        bed.send(&name, 0, None, &order(number)).await;
    }
    let worker = bed.worker::<note, _>(store.clone(), &seen, topic);
    seen.until_settled(5).await;
    // While it is read.
    store
        .set_mark(&mark_of("kafka.note", &name, 0), Some(0))
        .await
        .unwrap();
    seen.until_settled(10).await;
    worker.stop().await;
    assert_eq!((seen.done().len(), seen.count(Kind::Duplicate)), (5, 5));
}

/// A record takes long, and holds the mark of its partition up.
///
/// - does: handles those behind it until 1,024 lie above the mark, reads no further, and goes on when it is done
/// - effect: once each
#[tokio::test(flavor = "multi_thread")]
async fn with_1024_records_above_the_mark_a_partition_is_read_no_further_until_it_moves() {
    let bed = Bed::new();
    let (topic, store) = (bed.topic("orders", 1).await, MemoryStore::new());
    let (seen, name) = (Seen::default().holding("10"), topic.name().to_owned());
    let key = mark_of("kafka.note", &name, 0);
    let mark = async || store.look_at_stream(&key).await.unwrap().unwrap().mark;
    let orders: Vec<_> = (0..2500).map(order).collect();
    let sent = orders.iter().map(|order| bed.send(&name, 0, None, order));
    let offsets = join_all(sent).await;
    assert!(offsets.into_iter().eq(0..2500), "in their order");
    let worker = bed.worker::<note, _>(store.clone(), &seen, topic);
    // Those before it, and as many above the mark as may be there with it.
    seen.until_settled(10 + 1023).await;
    // Longer than a mark may lag behind.
    sleep(Duration::from_secs(3)).await;
    assert_eq!((seen.begun().len(), mark().await), (10 + 1024, Some(10)));
    assert_eq!(seen.all_settled(), 10 + 1023);
    seen.let_go();
    seen.until_settled(2500).await;
    let stats = worker.stop().await;
    assert_eq!(stats.count(Kind::Executed), 2500, "{stats}");
    assert_eq!(mark().await, Some(2500));
    assert_eq!(seen.begun().len(), 2500);
}

/// Two handlers, each with a group of its own, read one topic.
///
/// - does: gives each all of it, with marks and dead letters of its own
/// - effect: once for each
#[tokio::test(flavor = "multi_thread")]
async fn two_handlers_read_all_of_a_topic_each_with_a_mark_of_its_own() {
    let bed = Bed::new();
    let (topic, store) = (bed.topic("orders", 2).await, MemoryStore::new());
    let (one, other) = (Seen::default(), Seen::default());
    let name = topic.name().to_owned();
    for number in 0..10 {
        bed.send(&name, number % 2, None, &order(number)).await;
    }
    let first = bed.worker::<note, _>(store.clone(), &one, topic.clone());
    let second = bed.worker::<note_by_place, _>(store, &other, topic.group(format!("{name}.2")));
    one.until_settled(10).await;
    other.until_settled(10).await;
    first.stop().await;
    second.stop().await;
    assert_eq!((one.done().len(), other.done().len()), (10, 10));
}

/// Shares the promise of `kafka::reading::two_handlers_read_all_of_a_topic_each_with_a_mark_of_its_own`.
///
/// What one of them cannot handle changes nothing for the other.
#[tokio::test(flavor = "multi_thread")]
async fn two_handlers_of_one_worker_each_get_all_of_a_topic() {
    let bed = Bed::new();
    let (topic, store) = (bed.topic("orders", 2).await, MemoryStore::new());
    let (seen, name) = (Seen::default(), topic.name().to_owned());
    for number in 0..10 {
        bed.send(&name, number % 2, None, &order(number)).await;
    }
    // The first one rejects it.
    bed.send(&name, 0, None, &order("rejected")).await;
    let (settled, handlers) = (seen.clone(), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&handlers);
    let worker = KafkaWorker::builder(store.clone())
        .state(seen.clone())
        .consume::<note>(topic.clone())
        .consume::<note_by_place>(topic.group(format!("{name}.2")))
        .on_settled(move |record| {
            noted.lock().unwrap().push(record.handler.to_owned());
            settled.settled(record);
        })
        .build(bed.cluster())
        .unwrap();
    let worker = Running::start(worker);
    seen.until_settled(22).await;
    let partitions = worker.health.partitions().into_iter();
    let read: Vec<_> = partitions.map(|it| (it.partition, it.handler)).collect();
    let (one, other) = ("kafka.note".to_owned(), "kafka.place".to_owned());
    let each = [0, 1].map(|at| [(at, one.clone()), (at, other.clone())]);
    assert_eq!(read, each.concat());
    let stats = worker.stop().await;
    let handlers = handlers.lock().unwrap().clone();
    let of = |handler| handlers.iter().filter(|it| **it == handler).count();
    assert_eq!((of(one), of(other)), (11, 11));
    assert_eq!((stats.count(Kind::Executed), stats.dead_letters), (21, 1));
    assert_eq!(seen.done().len(), 21);
    for scope in ["kafka.note", "kafka.place"] {
        let mark = store.look_at_stream(&mark_of(scope, &name, 0)).await;
        assert_eq!(mark.unwrap().unwrap().mark, Some(6), "{scope}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_runs_for_longer_than_its_lease_and_its_partition_is_kept() {
    let bed = Bed::new();
    let (topic, store) = (bed.topic("orders", 1).await, MemoryStore::new());
    let seen = Seen::default().taking(Duration::from_secs(5));
    let name = topic.name().to_owned();
    bed.send(&name, 0, None, &order(1)).await;
    let worker = bed.worker::<note, _>(store, &seen, topic);
    seen.until_settled(1).await;
    until("the partition is read", || {
        let partitions = worker.health.partitions();
        partitions
            .iter()
            .any(|one| one.state == PartitionState::Reading)
    })
    .await;
    worker.stop().await;
    assert_eq!(seen.begun(), ["1"]);
}

/// And the group is kept: its client is polled beside the handlers.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_runs_for_longer_than_its_client_may_be_silent() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let seen = Seen::default().taking(Duration::from_secs(14));
    let name = topic.name().to_owned();
    bed.send(&name, 0, None, &order(1)).await;
    let settled = seen.clone();
    let cluster = bed.cluster().set("session.timeout.ms", "6000");
    let worker = KafkaWorker::builder(MemoryStore::new())
        .state(seen.clone())
        .consume::<note>(topic.concurrency(1))
        .on_settled(move |record| settled.settled(record))
        .build(cluster.set("max.poll.interval.ms", "6000"))
        .unwrap();
    let worker = Running::start(worker);
    until("the handler runs", || seen.begun() == ["1"]).await;
    let health = worker.health.clone();
    let is_read = || {
        let partitions = health.partitions();
        partitions.len() == 1 && partitions[0].state == PartitionState::Reading
    };
    until("the partition is read", is_read).await;
    while seen.all_settled() == 0 {
        assert!(is_read() && health.cut_off().is_empty(), "{health:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bed.send(&name, 0, None, &order(2)).await;
    seen.until_settled(2).await;
    let stats = worker.stop().await;
    assert_eq!(
        (seen.begun().len(), stats.count(Kind::Executed)),
        (2, 2),
        "{stats}"
    );
}

#[idempotent(key = header("order-id"), scope = "kafka.by_header")]
async fn note_by_header(order: Order, State(seen): State<Seen>) -> Result<(), Failed> {
    seen.work(&order.id).await
}

#[idempotent(key = header("kafka-key"), scope = "kafka.by_key")]
async fn note_by_key(order: Order, State(seen): State<Seen>) -> Result<(), Failed> {
    seen.work(&order.id).await
}

/// The body is the same, whatever the key. Of several headers of one name the last one counts.
#[tokio::test(flavor = "multi_thread")]
async fn records_are_told_apart_by_a_header() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (seen, name) = (Seen::default(), topic.name().to_owned());
    let [a, b, c] = ["a", "b", "c"].map(|id| ("order-id", id));
    for headers in [&[a][..], &[b], &[c, a], &[], &[("x-order-id", "d")]] {
        bed.send_with(&name, 0, Some("k"), &order("same"), headers)
            .await;
    }
    let worker = bed.worker::<note_by_header, _>(MemoryStore::new(), &seen, topic);
    seen.until_settled(5).await;
    let stats = worker.stop().await;
    let count = |kind| stats.count(kind);
    assert_eq!((count(Kind::Executed), count(Kind::Duplicate)), (2, 1));
    assert_eq!((count(Kind::Keyless), seen.done().len()), (2, 2));
    let letters = bed.read(&format!("{name}.dead"), 2).await;
    let reasons: Vec<_> = letters.iter().map(|it| it.header("idem-reason")).collect();
    assert_eq!(reasons, ["keyless"; 2]);
}

/// A header of the same name is another thing.
#[tokio::test(flavor = "multi_thread")]
async fn records_are_told_apart_by_their_keys() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (seen, name) = (Seen::default(), topic.name().to_owned());
    let other = [("kafka-key", "other")];
    for (key, headers) in [
        (Some("a"), &[][..]),
        (Some("b"), &[]),
        (Some("a"), &other),
        (None, &[]),
        (None, &other),
    ] {
        bed.send_with(&name, 0, key, &order("same"), headers).await;
    }
    let worker = bed.worker::<note_by_key, _>(MemoryStore::new(), &seen, topic);
    seen.until_settled(5).await;
    let stats = worker.stop().await;
    let count = |kind| stats.count(kind);
    assert_eq!((count(Kind::Executed), count(Kind::Duplicate)), (2, 1));
    assert_eq!((count(Kind::Keyless), seen.done().len()), (2, 2));
}

/// What Kafka did not take is told again, by this worker or by the next one, also if nothing more comes.
#[tokio::test(flavor = "multi_thread")]
async fn kafka_is_told_where_the_handler_is_until_it_knows() {
    let bed = Bed::new();
    let Some(mock) = &bed.mock else { return };
    let (topic, store, seen) = (
        bed.topic("orders", 1).await,
        MemoryStore::new(),
        Seen::default(),
    );
    let name = topic.name().to_owned();
    let refuse = |times| {
        let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
        mock.request_errors(RDKafkaApiKey::OffsetCommit, &vec![error; times]);
    };
    bed.send(&name, 0, None, &order(0)).await;
    refuse(1);
    let worker = bed.worker::<note, _>(store.clone(), &seen, topic.clone());
    until_committed(&bed, &name, 1).await;
    refuse(99);
    bed.send(&name, 0, None, &order(1)).await;
    seen.until_settled(2).await;
    worker.stop().await;
    mock.clear_request_errors(RDKafkaApiKey::OffsetCommit);
    assert_eq!(bed.committed(&name).await, Some(1));

    let worker = bed.worker::<note, _>(store, &seen, topic);
    until_committed(&bed, &name, 2).await;
    worker.stop().await;
}

/// Where a handler's mark is kept.
pub(crate) fn mark_of(scope: &'static str, topic: &str, partition: i32) -> Key {
    Key::new(scope, format!("kafka:{topic}:{partition}")).unwrap()
}
