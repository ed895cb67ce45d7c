//! What a worker does when Kafka or its settings are not as they should be.

use std::time::Duration;

use idem_core::{Executor, Failed, MemoryStore, idempotent};
use idem_kafka::{
    BuildError, Cluster, KafkaWorker, Ladder, OnFailure, PartitionState, RunError, Topic,
};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::bed::{Bed, Running, Seen, note, note_by_place, order, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_goes_away_and_comes_back_is_read_again() {
    let bed = Bed::new();
    let Some(mock) = &bed.mock else { return };
    let topic = bed.topic("orders", 1).await;
    let (seen, name) = (Seen::default(), topic.name().to_owned());
    for number in 0..5 {
        bed.send(&name, 0, None, &order(number)).await;
    }
    let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic);
    seen.until_settled(5).await;
    mock.broker_down(1).unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    mock.broker_up(1).unwrap();
    for number in 5..10 {
        bed.send(&name, 0, None, &order(number)).await;
    }
    seen.until_settled(10).await;
    worker.stop().await;
    assert_eq!(seen.done().len(), 10);
}

/// Kafka says that the offset is not there, and the client begins at the first one that is.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_back_by_itself_has_nothing_handled_again() {
    let bed = Bed::new();
    let Some(mock) = &bed.mock else { return };
    let topic = bed.topic("orders", 1).await;
    let (seen, name) = (Seen::default(), topic.name().to_owned());
    for number in 0..5 {
        bed.send(&name, 0, None, &order(number)).await;
    }
    let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic);
    seen.until_settled(5).await;
    let gone = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE];
    mock.request_errors(RDKafkaApiKey::Fetch, &gone);
    // With it those before it come again, if the client has gone back by then.
    bed.send(&name, 0, None, &order(5)).await;
    until("the last one is handled", || {
        seen.done().contains(&"5".to_owned())
    })
    .await;
    worker.stop().await;
    assert_eq!((seen.done().len(), seen.all_settled()), (6, 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_waits_for_a_cluster_that_is_not_there_and_stops_when_told() {
    let seen = Seen::default();
    let worker = KafkaWorker::builder(MemoryStore::new())
        .state(seen.clone())
        .consume::<note>("orders")
        .build("127.0.0.1:1")
        .unwrap();
    let worker = Running::start(worker);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!worker.health.is_ready());
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_does_not_exist_is_told() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let refused = bed.no_such_topic();
    let seen = Seen::default();
    let worker = bed.worker::<note, _>(
        MemoryStore::new(),
        &seen,
        topic.dead_letters(refused.clone()),
    );
    let error = worker.ends().await.unwrap_err();
    assert!(
        matches!(&error, RunError::NoTopic { topic, .. } if *topic == refused),
        "{error:?}"
    );
}

/// A broker that has just started may not know of it for a moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_kafka_does_not_know_for_a_moment_is_read() {
    let bed = Bed::new();
    let Some(mock) = &bed.mock else { return };
    let topic = bed.topic("orders", 1).await;
    let (seen, name) = (Seen::default(), topic.name().to_owned());
    bed.send(&name, 0, None, &order(1)).await;
    let set = |error| mock.topic_error(&name, error).unwrap();
    set(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic);
    tokio::time::sleep(Duration::from_secs(2)).await;
    set(RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR);
    seen.until_settled(1).await;
    worker.stop().await;
}

/// By another door of the service: nothing is handled, and nothing is passed.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_executor_was_closed_by_somebody_else_says_so() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (seen, name) = (Seen::default(), topic.name().to_owned());
    let executor = Executor::new(MemoryStore::new());
    let worker = KafkaWorker::on(executor.clone())
        .state(seen.clone())
        .consume::<note>(topic);
    let worker = Running::start(worker.build(bed.cluster()).unwrap());
    executor.close();
    bed.send(&name, 0, None, &order(1)).await;
    until("it is told", || {
        let partitions = worker.health.partitions();
        partitions
            .iter()
            .any(|one| matches!(one.state, PartitionState::Failing { .. }))
    })
    .await;
    assert!(!worker.health.is_ready());
    worker.stop().await;
    assert!(seen.begun().is_empty());
}

/// The client says so once.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_its_group_does_not_let_in_is_not_ready() {
    let bed = Bed::new();
    let Some(mock) = &bed.mock else { return };
    let topic = bed.topic("orders", 1).await;
    let refused = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED; 999];
    mock.request_errors(RDKafkaApiKey::FindCoordinator, &refused);
    let worker = bed.worker::<note, _>(MemoryStore::new(), &Seen::default(), topic);
    until("it is told", || !worker.health.cut_off().is_empty()).await;
    // Longer than it takes to look whether Kafka is there.
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert!(!worker.health.is_ready());
    mock.clear_request_errors(RDKafkaApiKey::FindCoordinator);
    until("it is let in", || worker.health.is_ready()).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_dropped_is_not_ready_any_more() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let worker = bed.worker::<note, _>(MemoryStore::new(), &Seen::default(), topic);
    let health = worker.health.clone();
    until("it runs", || health.is_ready()).await;
    worker.die().await;
    assert!(!health.is_ready());
}

mod elsewhere {
    use super::{Failed, idempotent};

    #[idempotent(key = message_id(), scope = "kafka.note")]
    pub(super) async fn note(_: String) -> Result<(), Failed> {
        Ok(())
    }
}

#[idempotent(key = sequence(producer = "id", number = "number"), scope = "kafka.numbered")]
async fn numbered(_: Numbered) -> Result<(), Failed> {
    Ok(())
}

#[derive(serde::Deserialize)]
struct Numbered {
    id: String,
    number: u64,
}

#[test]
fn what_cannot_be_together_is_refused() {
    let builder = || KafkaWorker::builder(MemoryStore::new()).state(Seen::default());
    let error = builder().build("localhost:9092").unwrap_err();
    assert!(matches!(error, BuildError::NothingToConsume));
    let error = builder().consume::<note>("orders").build(" ").unwrap_err();
    assert!(matches!(error, BuildError::NoServers));
    let cluster = Cluster::new("localhost:9092").set("enable.auto.commit", "true");
    let error = builder()
        .consume::<note>("orders")
        .build(cluster)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the setting `enable.auto.commit` is the worker's own: leave it out of the cluster's settings"
    );
    let error = builder()
        .consume::<note>("no topic")
        .build("localhost:9092")
        .unwrap_err();
    assert!(matches!(error, BuildError::TopicName { .. }));
    let twice = builder()
        .consume::<note>("orders")
        .consume::<elsewhere::note>("others");
    assert!(matches!(
        twice.build("localhost:9092").unwrap_err(),
        BuildError::ScopeTwice { .. }
    ));
    let twice = builder()
        .consume::<note>("orders")
        .consume::<note>("orders");
    assert!(matches!(
        twice.build("localhost:9092").unwrap_err(),
        BuildError::TopicTwice { .. }
    ));
    let twice = builder()
        .consume::<note>("orders")
        .consume::<note>(Topic::new("orders").group("other"));
    assert!(matches!(
        twice.build("localhost:9092").unwrap_err(),
        BuildError::TopicTwice { .. }
    ));
    // Each would get some of the partitions.
    let shared = builder()
        .consume::<note>("orders")
        .consume::<note_by_place>(Topic::new("orders").group("kafka.note"));
    assert!(matches!(
        shared.build("localhost:9092").unwrap_err(),
        BuildError::GroupTwice { .. }
    ));
    let retries = |topic: &str| Topic::new("orders").retries(topic, Ladder::default());
    for topic in ["orders", "others"] {
        let twice = builder()
            .consume::<note>(retries(topic))
            .consume::<note_by_place>("others");
        assert!(matches!(
            twice.build("localhost:9092").unwrap_err(),
            BuildError::TopicTwice { .. }
        ));
    }
    let twice = builder()
        .consume::<note>(retries("again"))
        .consume::<note_by_place>(retries("again"));
    assert!(matches!(
        twice.build("localhost:9092").unwrap_err(),
        BuildError::TopicTwice { .. }
    ));
    let own = Topic::new("orders").dead_letters("orders");
    let error = builder()
        .consume::<note>(own)
        .build("localhost:9092")
        .unwrap_err();
    assert!(matches!(error, BuildError::TopicTwice { .. }));
    let error = builder()
        .consume::<numbered>("orders")
        .build("localhost:9092")
        .unwrap_err();
    assert!(matches!(error, BuildError::Numbered { .. }));
    let both = Topic::new("orders")
        .retries("again", Ladder::default())
        .on_failure(OnFailure::Stop);
    let error = builder()
        .consume::<note>(both)
        .build("localhost:9092")
        .unwrap_err();
    assert!(matches!(error, BuildError::StopsAndRetries { .. }));
    // Two handlers of one topic.
    assert!(
        builder()
            .consume::<note>("orders")
            .consume::<note_by_place>("orders")
            .build("localhost:9092")
            .is_ok()
    );
    // One handler on two topics.
    assert!(
        builder()
            .consume::<note>("orders")
            .consume::<note>("others")
            .build("localhost:9092")
            .is_ok()
    );
}
