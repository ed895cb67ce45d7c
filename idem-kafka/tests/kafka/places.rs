//! Where a handler begins, and marks that a partition does not have.

use std::time::{Duration, SystemTime};

use idem_core::{MemoryStore, store::StreamStore as _};
use idem_kafka::{KafkaWorker, Order, PartitionState, StartAt};

use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tokio::time::sleep;

use crate::{
    bed::{Bed, Running, Seen, note, order, until},
    reading::mark_of,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_begins_where_it_is_told_to() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let name = topic.name().to_owned();
    let begun = SystemTime::now();
    for number in 0..3 {
        bed.send(&name, 0, None, &order(number)).await;
    }
    let hour = Duration::from_hours(1);
    for (number, place, begins_at_first) in [
        (1, StartAt::First, true),
        (2, StartAt::End, false),
        (3, StartAt::Time(begun - hour), true),
        (4, StartAt::Time(SystemTime::now() + hour), false),
        (5, StartAt::Committed, true),
    ] {
        if bed.mock.is_some() && matches!(place, StartAt::Time(_)) {
            // The mock knows no times.
            continue;
        }
        let (topic, seen) = (
            topic.clone().group(format!("{name}.{number}")),
            Seen::default(),
        );
        let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic.start_at(place));
        // Saved before anything is handled, or when all is.
        let is_at_end = || {
            worker
                .health
                .partitions()
                .iter()
                .any(|one| one.mark == Some(3))
        };
        until(&format!("the mark is at the end, {place:?}"), is_at_end).await;
        worker.stop().await;
        let handled = if begins_at_first { 3 } else { 0 };
        assert_eq!(seen.done().len(), handled, "{place:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_goes_on_where_the_group_has_committed() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let name = topic.name().to_owned();
    for number in 0..4 {
        bed.send(&name, 0, None, &order(number)).await;
    }
    bed.commit(&name, 2).await;
    let seen = Seen::default();
    let worker = bed.worker::<note, _>(
        MemoryStore::new(),
        &seen,
        topic.start_at(StartAt::Committed),
    );
    seen.until_settled(2).await;
    worker.stop().await;
    let mut done = seen.done();
    done.sort();
    assert_eq!(done, ["2", "3"]);
}

/// A topic that was made anew since, or a transaction that is open still: neither its end nor its beginning is where the
/// group was.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_does_not_begin_where_the_group_has_committed_beyond_the_end() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (name, store, seen) = (topic.name().to_owned(), MemoryStore::new(), Seen::default());
    for number in 0..3 {
        bed.send(&name, 0, None, &order(number)).await;
    }
    bed.commit(&name, 5).await;
    let topic = topic.start_at(StartAt::Committed);
    let worker = bed.worker::<note, _>(store.clone(), &seen, topic);
    until("it is told", || fails(&worker, "the offset 5")).await;
    assert_eq!(worker.health.partitions()[0].mark, None);
    for number in 3..7 {
        bed.send(&name, 0, None, &order(number)).await;
    }
    seen.until_settled(2).await;
    worker.stop().await;
    let mut done = seen.done();
    done.sort();
    assert_eq!(done, ["5", "6"]);
}

/// Kafka removes records above the mark: by the topic's retention, say.
///
/// - does: says so in the log, and in its health how many; goes on with the first that is there
/// - effect: others once each
#[tokio::test(flavor = "multi_thread")]
async fn records_that_were_removed_before_they_were_handled_are_told() {
    let bed = Bed::new();
    let (topic, store, seen) = (
        bed.topic("orders", 1).await,
        MemoryStore::new(),
        Seen::default(),
    );
    let name = topic.name().to_owned();
    bed.send(&name, 0, None, &order(0)).await;
    let worker = bed.worker::<note, _>(store.clone(), &seen, topic.clone());
    seen.until_settled(1).await;
    worker.stop().await;
    bed.truncate(&name).await;
    let worker = bed.worker::<note, _>(store, &seen, topic);
    until("it is told", || {
        worker.health.partitions().iter().any(|one| one.removed > 0)
    })
    .await;
    let health = worker.health.partitions().remove(0);
    seen.until_settled(2).await;
    worker.stop().await;
    assert!(health.removed > 0);
}

/// A partition ends before its mark: the topic was made anew, or set back.
///
/// - does: looks again, for 20 times `takeover_after`; reads nothing then before a person sets the mark; says so in the log
///   and in its health, and is not ready
/// - effect: once each
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_ends_before_its_mark_is_not_read_before_somebody_sets_it() {
    let bed = Bed::new();
    let (topic, store, seen) = (
        bed.topic("orders", 1).await,
        MemoryStore::new(),
        Seen::default(),
    );
    let name = topic.name().to_owned();
    let mark = mark_of("kafka.note", &name, 0);
    bed.send(&name, 0, None, &order(0)).await;
    store.set_mark(&mark, Some(1_000)).await.unwrap();
    let topic = topic.takeover_after(Duration::from_secs(1));
    let worker = bed.worker::<note, _>(store.clone(), &seen, topic);
    until("it is told", || {
        let partitions = worker.health.partitions();
        partitions
            .iter()
            .any(|one| one.state == PartitionState::MarkBeyondEnd { mark: 1_000 })
    })
    .await;
    assert!(!worker.health.is_ready());
    assert_eq!(seen.all_settled(), 0);
    store.set_mark(&mark, Some(0)).await.unwrap();
    seen.until_settled(1).await;
    worker.stop().await;
    assert_eq!(seen.done(), ["0"]);
}

/// What is below the mark of a partition that was made anew was never handled, however far it grows.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_has_ended_before_its_mark_is_not_read_when_it_has_grown_beyond_it() {
    grows_beyond_its_mark(&Bed::new(), async |_| {}).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn that_a_partition_has_ended_before_its_mark_is_known_after_kafka_could_not_be_asked() {
    let bed = Bed::new();
    let Some(mock) = &bed.mock else { return };
    grows_beyond_its_mark(&bed, async |worker| {
        let refused = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED];
        mock.request_errors(RDKafkaApiKey::ListOffsets, &refused);
        until("Kafka does not answer", || {
            fails(worker, "Kafka does not tell")
        })
        .await;
    })
    .await;
}

/// Whether a partition fails, and says so.
fn fails(worker: &Running, why: &str) -> bool {
    worker
        .health
        .partitions()
        .iter()
        .any(|one| matches!(&one.state, PartitionState::Failing { error } if error.contains(why)))
}

/// A worker has seen a partition end before its mark, and does something before it has grown beyond that.
async fn grows_beyond_its_mark(bed: &Bed, meanwhile: impl AsyncFnOnce(&Running)) {
    let (topic, store, seen) = (
        bed.topic("orders", 1).await,
        MemoryStore::new(),
        Seen::default(),
    );
    let name = topic.name().to_owned();
    let mark = mark_of("kafka.note", &name, 0);
    bed.send(&name, 0, None, &order(0)).await;
    store.set_mark(&mark, Some(3)).await.unwrap();
    let topic = topic.takeover_after(Duration::from_secs(3));
    let worker = bed.worker::<note, _>(store.clone(), &seen, topic);
    until("it looks", || fails(&worker, "before its mark 3")).await;
    sleep(Duration::from_secs(14)).await;
    meanwhile(&worker).await;
    for number in 1..6 {
        bed.send(&name, 0, None, &order(number)).await;
    }
    until("it is told", || {
        let partitions = worker.health.partitions();
        partitions
            .iter()
            .any(|one| one.state == PartitionState::MarkBeyondEnd { mark: 3 })
    })
    .await;
    assert_eq!(seen.all_settled(), 0);
    store.set_mark(&mark, Some(0)).await.unwrap();
    seen.until_settled(6).await;
    worker.stop().await;
}

/// Whatever Kafka does not answer in the beginning: no record is passed, and a claim of which no reading came does not
/// keep the partition from this very worker.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_could_not_ask_where_a_partition_begins_passes_nothing_and_asks_again() {
    for unanswered in 1..=4 {
        let bed = Bed::new();
        let Some(mock) = &bed.mock else { return };
        let (topic, seen) = (bed.topic("orders", 1).await, Seen::default());
        for number in 0..3 {
            bed.send(topic.name(), 0, None, &order(number)).await;
        }
        let refused =
            vec![RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED; unanswered];
        mock.request_errors(RDKafkaApiKey::ListOffsets, &refused);
        // Longer than the test waits.
        let topic = topic.takeover_after(Duration::from_hours(1));
        let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic);
        seen.until_settled(3).await;
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_whose_old_records_are_removed_behind_its_reader_is_read_on() {
    let bed = Bed::new();
    let (topic, store, seen) = (
        bed.topic("orders", 1).await,
        MemoryStore::new(),
        Seen::default(),
    );
    let name = topic.name().to_owned();
    bed.send(&name, 0, None, &order(0)).await;
    let worker = bed.worker::<note, _>(store, &seen, topic);
    seen.until_settled(1).await;
    bed.truncate(&name).await;
    bed.send(&name, 0, None, &order("last")).await;
    until("the last record is handled", || {
        seen.done().contains(&"last".to_owned())
    })
    .await;
    worker.stop().await;
}

/// Shares the promise of `kafka::places::records_that_were_removed_before_they_were_handled_are_told`.
///
/// Retention overtakes a worker that is behind.
#[tokio::test(flavor = "multi_thread")]
async fn records_that_are_removed_while_a_worker_is_behind_are_told_and_those_above_are_handled() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await.order(Order::ByPartition);
    let (name, seen) = (
        topic.name().to_owned(),
        Seen::default().taking(Duration::from_millis(200)),
    );
    bed.send(&name, 0, None, &order("first")).await;
    // What the client reads ahead.
    let cluster = bed.cluster().set("queued.max.messages.kbytes", "64");
    let worker = KafkaWorker::builder(MemoryStore::new())
        .state(seen.clone())
        .consume::<note>(topic);
    let worker = Running::start(worker.build(cluster).unwrap());
    until("it reads", || !seen.begun().is_empty()).await;
    for _ in 0..4 {
        bed.truncate(&name).await;
    }
    bed.send(&name, 0, None, &order("last")).await;
    until("the last record is handled", || {
        seen.done().contains(&"last".to_owned())
    })
    .await;
    until("it is told", || {
        worker.health.partitions().iter().any(|one| one.removed > 0)
    })
    .await;
    worker.stop().await;
}
