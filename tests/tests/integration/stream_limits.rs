//! The limits of a stream: what nobody can read in it, its last chunk, and what a restored broker does not have.

use std::time::Duration;

use idem_amqp::{
    MemoryStore, Policy, StreamOffset, Worker,
    executor::ExecutionKind as Kind,
    store::StreamStore as _,
    worker::{Health, ProblemKind},
};
use idem_servers::rabbitmq::Version;
use idem_tests::{
    bed::{Bed, dead},
    foreign_publisher::{Hostile, Readable, publish_hostile},
    running::assert_balance,
    script::{Order, Script, charge},
};

use crate::streams::{failures, mark, mark_key, reading, stream, stream_bed, until_mark};

const CHARGE: &str = "orders.charge";

const NAMED: Readable<'static> = Readable {
    message_id: Some("m-1"),
    reply_to: None,
    correlation_id: None,
};

/// An order with hostile properties, one before and one behind it. Tells its body.
async fn publish_between(bed: &Bed, hostile: Hostile) -> Vec<u8> {
    let order = serde_json::to_vec(&Order::new("h")).unwrap();
    bed.order("a").await;
    publish_hostile(bed.url(), bed.name(), hostile, NAMED, &order).await;
    bed.order("b").await;
    order
}

/// The message is dead-lettered, those before and behind it are handled, and the mark passes all.
async fn dead_lettered_alone(bed: Bed, hostile: Hostile, told: &str) {
    let (store, script) = (MemoryStore::new(), Script::succeeding());
    let order = publish_between(&bed, hostile).await;
    let worker = reading(&bed, &store, &script);

    let letter = bed.dead_letter_in(&dead(&failures(&bed, CHARGE))).await;
    assert_eq!(letter.reason(), "unreadable");
    assert!(letter.error().contains(told), "{}", letter.error());
    assert_eq!(letter.body, order);
    worker.ended(Kind::Executed, 2).await;
    until_mark(&store, &mark_key(&bed, CHARGE), 3).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::Undecodable, 1)]);
    assert_eq!(balance.incidents().to_string(), "");
    script.assert_effects(["a", "b"]);
}

/// The name of a header, or a property, of a message in a stream is not UTF-8.
///
/// - does: dead-letters it, `unreadable`, with its body; those behind it go on, and the mark passes it
/// - effect: others once each
#[tokio::test]
async fn a_property_that_is_not_utf_8_dead_letters_its_message_of_a_stream_alone() {
    dead_lettered_alone(stream_bed().await, Hostile::TypeNotUtf8, "UTF-8").await;
}

/// Shares the promise of
/// `stream_limits::a_property_that_is_not_utf_8_dead_letters_its_message_of_a_stream_alone`.
#[tokio::test]
async fn a_headers_name_that_is_not_utf_8_dead_letters_its_message_of_a_stream_alone() {
    dead_lettered_alone(stream_bed().await, Hostile::NameNotUtf8, "UTF-8").await;
}

/// Headers of a message in a stream are arrays nested more than 64 deep.
///
/// - does: as with what is not UTF-8; RabbitMQ before 4.0 keeps no such header in a stream, so the message is handled
/// - effect: others once each
#[tokio::test]
async fn headers_nested_1500_deep_hold_up_nothing_in_a_stream() {
    let (bed, hostile) = (stream_bed().await, Hostile::Nested(1_500));
    if bed.broker().version() >= Version::new(4, 0) {
        return dead_lettered_alone(bed, hostile, "nested").await;
    }
    let (store, script) = (MemoryStore::new(), Script::succeeding());
    publish_between(&bed, hostile).await;
    let worker = reading(&bed, &store, &script);
    worker.ended(Kind::Executed, 3).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 3)]);
    script.assert_effects(["a", "h", "b"]);
}

async fn orders(bed: &Bed, ids: std::ops::Range<u32>) {
    for id in ids {
        bed.order(&id.to_string()).await;
    }
}

/// A handler begins with the last chunk of a stream.
///
/// - does: skips what was there before, and nothing behind it, also if the worker stops before it has handled anything
/// - effect: once each
#[tokio::test]
async fn a_handler_that_begins_with_the_last_chunk_misses_nothing_from_there_on() {
    let (bed, store) = (stream_bed().await, MemoryStore::new());
    let (hanging, script) = (Script::hanging(), Script::succeeding());
    // Confirmed one after the other, so each is a chunk.
    orders(&bed, 0..3).await;
    let policy = Policy::builder()
        .lease(Duration::from_secs(1))
        .build_const();
    let from_last = || stream(&bed).policy(policy).offset(StreamOffset::Last);
    let worker = Worker::builder(store.clone()).state(hanging.clone());
    let worker = worker
        .consume_stream::<charge>(from_last())
        .grace(Duration::ZERO);
    let worker = bed.start(worker);
    worker.until("it reads", Health::is_ready).await;
    hanging.calls.count("the last one is begun", 1).await;
    worker.stop().await;
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(2));
    orders(&bed, 3..5).await;
    let worker = Worker::builder(store.clone()).state(script.clone());
    let worker = bed.start(worker.consume_stream::<charge>(from_last()));
    worker.ended(Kind::Executed, 3).await;
    worker.stop().await;
    script.assert_effects(["2", "3", "4"]);
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(5));
}

/// The broker was restored from a backup: its stream ends before the mark.
///
/// - does: reads nothing before a person sets the mark to the beginning; then what was completed is a duplicate
/// - effect: once each
#[tokio::test]
async fn a_stream_of_a_restored_broker_is_read_again_when_somebody_says_so() {
    let (bed, store, script) = (stream_bed().await, MemoryStore::new(), Script::succeeding());
    orders(&bed, 0..5).await;
    let worker = reading(&bed, &store, &script);
    worker.ended(Kind::Executed, 5).await;
    worker.stop().await;
    // The backup has the first three.
    bed.delete(bed.name()).await;
    bed.declare_foreign(bed.name(), crate::streams::stream_arguments(&[]))
        .await;
    orders(&bed, 0..3).await;
    let worker = reading(&bed, &store, &script);
    let kind = ProblemKind::MarkBeyondEnd {
        queue: bed.name().into(),
    };
    let is_told = |health: &Health| health.problems().iter().any(|told| told.kind == kind);
    worker.until("it says so", is_told).await;
    orders(&bed, 5..7).await;
    let key = mark_key(&bed, CHARGE);
    store.set_mark(&key, Some(0)).await.unwrap();
    worker.ended(Kind::Executed, 2).await;
    worker.until("it reads", |health| !is_told(health)).await;
    let ends = [(Kind::Duplicate, 3), (Kind::Executed, 2)];
    assert_balance(&worker.stop().await, ends);
    let ids = (0..7).map(|id: u32| id.to_string());
    script.assert_effects(ids);
    assert_eq!(mark(&store, &key).await, Some(5));
}
