//! What becomes of a record that is not handled.

use std::time::{Duration, SystemTime};

use idem_core::{MemoryStore, executor::ExecutionKind as Kind, store::StreamStore as _};
use idem_kafka::{OnFailure, Order, PartitionState};

use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::{
    bed::{Bed, Seen, note, order, until},
    reading::mark_of,
};

fn millis_since_1970() -> u128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_millis()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_fails_runs_again() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (seen, name) = (Seen::default().failing("1", 2), topic.name().to_owned());
    bed.send(&name, 0, None, &order(1)).await;
    let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic);
    seen.until_settled(1).await;
    worker.stop().await;
    assert_eq!(seen.begun(), ["1", "1", "1"]);
    assert_eq!((seen.done().len(), seen.count(Kind::Executed)), (1, 1));
}

/// Records in the middle of a partition can never be handled: rejected, undecodable, without a key, failing, panicking.
///
/// - does: dead-letters each with its reason, its error and where it was; the others go on
/// - effect: others once each
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_handled_goes_to_the_dead_letter_topic_and_the_others_go_on() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (seen, name) = (
        Seen::default().failing("fails", 99),
        topic.name().to_owned(),
    );
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = [
        ("x-tenant", "acme"),
        ("traceparent", trace),
        ("idem-reason", "forged"),
        ("idem-first-failure", "1"),
    ];
    let begun = millis_since_1970();
    bed.send_with(&name, 0, Some("k-1"), &order("rejected"), &headers)
        .await;
    bed.send(&name, 0, None, "no json").await;
    bed.send(&name, 0, None, r#"{"id":""}"#).await;
    bed.send(&name, 0, None, &order("fails")).await;
    bed.send(&name, 0, None, &order("panics")).await;
    bed.send(&name, 0, None, &order("good")).await;
    let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic);
    seen.until_settled(6).await;
    let stats = worker.stop().await;
    assert_eq!((stats.count(Kind::Executed), stats.dead_letters), (1, 5));
    assert_eq!(seen.done(), ["good"]);

    let letters = bed.read(&format!("{name}.dead"), 5).await;
    let letter = |offset: &str| {
        letters
            .iter()
            .find(|letter| letter.header("idem-offset") == offset)
            .unwrap()
    };
    let reasons: Vec<_> = ["0", "1", "2", "3", "4"]
        .map(|offset| letter(offset).header("idem-reason"))
        .into();
    assert_eq!(
        reasons,
        [
            "rejected",
            "undecodable",
            "keyless",
            "exhausted",
            "exhausted"
        ]
    );
    let rejected = letter("0");
    assert_eq!(rejected.key.as_deref(), Some("k-1"));
    assert_eq!(rejected.body.as_deref(), Some(&*order("rejected")));
    assert_eq!(rejected.header("x-tenant"), "acme");
    assert_eq!(rejected.header("traceparent"), trace);
    let [first, last] = ["idem-first-failure", "idem-last-failure"]
        .map(|name| rejected.header(name).parse::<u128>().unwrap());
    assert!(begun <= first && first == last, "{rejected:?}");
    assert!(last <= millis_since_1970(), "{rejected:?}");
    assert_eq!(rejected.header("idem-error"), "not for us");
    assert_eq!(rejected.header("idem-key"), "kafka.note:rejected");
    assert_eq!(
        (
            rejected.header("idem-topic"),
            rejected.header("idem-partition")
        ),
        (&*name, "0")
    );
    assert_eq!(letter("3").header("idem-attempt"), "4");
    // Nobody knows when its first attempt was.
    assert_eq!(letter("3").header("idem-first-failure"), "");
    assert_ne!(letter("3").header("idem-last-failure"), "");
}

/// A record cannot be handled, and its partition is to stop there.
///
/// - does: starts nothing behind it, and dead-letters nothing; the log, the health and a gauge say so
/// - effect: those before it once each
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_stops_at_what_cannot_be_handled_if_it_is_to() {
    let bed = Bed::new();
    let topic = bed
        .topic("orders", 1)
        .await
        .on_failure(OnFailure::Stop)
        .order(Order::ByPartition);
    let (seen, name) = (Seen::default(), topic.name().to_owned());
    bed.send(&name, 0, None, &order("before")).await;
    bed.send(&name, 0, None, "no json").await;
    bed.send(&name, 0, None, &order("behind")).await;
    let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic);
    until("the partition stops", || {
        let partitions = worker.health.partitions();
        partitions
            .iter()
            .any(|one| one.state == PartitionState::Stopped { offset: 1 })
    })
    .await;
    assert!(!worker.health.is_ready());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stats = worker.stop().await;
    assert_eq!(
        (seen.done(), stats.dead_letters),
        (vec!["before".into()], 0)
    );
}

/// Kafka does not confirm a dead letter.
///
/// - does: publishes it again and again; the mark waits for it
/// - effect: nothing of it
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_is_not_confirmed_holds_the_mark_up() {
    let bed = Bed::new();
    let Some(mock) = &bed.mock else { return };
    let (topic, store, seen) = (
        bed.topic("orders", 1).await,
        MemoryStore::new(),
        Seen::default(),
    );
    let name = topic.name().to_owned();
    let mark = async || {
        let key = mark_of("kafka.note", &name, 0);
        let state = store.look_at_stream(&key).await.unwrap();
        state.and_then(|state| state.mark)
    };
    bed.send(&name, 0, None, "no json").await;
    let refused = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED; 99];
    mock.request_errors(RDKafkaApiKey::Produce, &refused);
    let worker = bed.worker::<note, _>(store.clone(), &seen, topic);
    until("it is read", || {
        worker
            .health
            .partitions()
            .iter()
            .any(|one| one.mark.is_some())
    })
    .await;
    // Longer than a mark may lag behind.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((seen.all_settled(), mark().await), (0, Some(0)));
    mock.clear_request_errors(RDKafkaApiKey::Produce);
    seen.until_settled(1).await;
    worker.stop().await;
    let letters = bed.read(&format!("{name}.dead"), 1).await;
    assert_eq!(letters[0].header("idem-reason"), "undecodable");
    assert_eq!(mark().await, Some(1));
}
