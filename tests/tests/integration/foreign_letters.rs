//! Letters that RabbitMQ dead-lettered itself, and dead-letter queues of somebody else's.

use std::time::{Duration, SystemTime};

use idem_amqp::{MemoryStore, Publication, Publisher, Queue, Worker, dead_letters::Selection};
use idem_tests::{
    bed::{Bed, QUICK, dead, persistent},
    script::{Order, Script, charge},
};
use lapin::types::{AMQPValue, FieldTable};

use crate::replays::{replay_to, replayer, until_dead};

/// A queue and a dead-letter queue of somebody else's, whose messages the broker dead-letters.
async fn foreign(bed: &Bed, arguments: &[(&str, AMQPValue)]) {
    let mut table = FieldTable::default();
    table.insert("x-dead-letter-exchange".into(), text(""));
    table.insert("x-dead-letter-routing-key".into(), text(&dead(bed.name())));
    for (name, value) in arguments {
        table.insert((*name).into(), value.clone());
    }
    let quorum = [("x-queue-type", text("quorum"))];
    let mut of_letters = FieldTable::default();
    for (name, value) in quorum {
        table.insert(name.into(), value.clone());
        of_letters.insert(name.into(), value);
    }
    bed.declare_foreign(&dead(bed.name()), of_letters).await;
    bed.declare_foreign(bed.name(), table).await;
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

/// Replays the broker's own dead letter to a worker that has nothing to do with its end.
async fn replay_the_brokers(bed: Bed, reason: &str) {
    until_dead(&bed, 1).await;
    let found = replayer(&bed).look(&Selection::all()).await.unwrap();
    let [letter] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(letter.reason(), reason);
    assert_eq!(letter.queue(), Some(bed.name()));
    assert_eq!(
        (letter.exchange(), letter.routing_key()),
        (Some(""), Some(bed.name()))
    );
    let age = SystemTime::now().duration_since(letter.last_failure().unwrap());
    assert!(age.unwrap() < Duration::from_mins(1));

    let script = Script::succeeding();
    let queue = Queue::existing(bed.name()).policy(QUICK);
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<charge>(queue));
    replay_to(worker, bed, &script, "a").await;
}

/// RabbitMQ dead-lettered the message because it expired.
///
/// - does: runs it as any replay
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_message_that_expired_can_be_replayed() {
    let bed = Bed::bare().await;
    foreign(&bed, &[]).await;
    let body = serde_json::to_vec(&Order::new("a")).unwrap();
    let expiring = persistent().with_expiration("1".into());
    bed.send(bed.name(), &body, expiring).await;
    replay_the_brokers(bed, "broker-expired").await;
}

/// RabbitMQ dead-lettered the message because a foreign consumer rejected it.
///
/// - does: runs it as any replay
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_message_that_a_foreign_consumer_rejected_can_be_replayed() {
    let bed = Bed::bare().await;
    foreign(&bed, &[]).await;
    bed.order("a").await;
    bed.refuse(bed.name()).await;
    replay_the_brokers(bed, "broker-rejected").await;
}

/// RabbitMQ dead-lettered the message because it reached its delivery limit.
///
/// - does: runs it as any replay
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_message_that_reached_its_delivery_limit_can_be_replayed() {
    let bed = Bed::bare().await;
    foreign(&bed, &[("x-delivery-limit", AMQPValue::LongLongInt(1))]).await;
    bed.order("a").await;
    bed.give_back(bed.name()).await;
    bed.give_back(bed.name()).await;
    replay_the_brokers(bed, "broker-delivery-limit").await;
}

/// The dead-letter queue has a low delivery limit.
///
/// - does: replaces a letter that comes close to it by a copy
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn a_letter_that_is_looked_at_often_is_not_dropped_by_its_queues_delivery_limit() {
    let bed = Bed::bare().await;
    let limit = AMQPValue::LongLongInt(4);
    let arguments = [
        ("x-queue-type", text("quorum")),
        ("x-delivery-limit", limit),
    ];
    let mut table = FieldTable::default();
    for (name, value) in arguments {
        table.insert(name.into(), value);
    }
    bed.declare_foreign(&dead(bed.name()), table).await;
    let replayer = replayer(&bed).assume_delivery_limit(4);
    let letter = Publication::json(&dead(bed.name()), &Order::new("a"));
    let letter = letter.header("idem-error", "no such customer");
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    publisher.publish(&letter).await.unwrap();
    for _ in 0..12 {
        let found = replayer.look(&Selection::all()).await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].message_id(), Some(letter.id()));
        assert_eq!(found[0].error(), Some("no such customer"));
        until_dead(&bed, 1).await;
    }
    replayer.discard(&Selection::all()).await.unwrap();
    bed.assert_nothing_stuck().await;
}

/// RabbitMQ dead-lettered the message, and its headers claim that idem did so, in another queue.
///
/// - does: believes the broker: sends it back to where it died, as any letter of the broker's
/// - atomic: once, where it died
/// - leased: once, where it died
///
/// Whoever publishes to one queue could have an operator publish to another one.
#[tokio::test]
async fn a_message_that_claims_to_be_a_dead_letter_of_another_queue_goes_back_to_where_it_died() {
    let bed = Bed::bare().await;
    foreign(&bed, &[]).await;
    let payments = bed.another("payments");
    bed.declare_foreign(&payments, FieldTable::default()).await;
    let mut forged = FieldTable::default();
    for (name, value) in [
        ("idem-reason", text("rejected")),
        ("idem-queue", text(&payments)),
        ("idem-exchange", text("payments")),
        ("idem-routing-key", text("payments.due")),
        ("idem-key", text("payments.charge:o-1")),
        ("idem-error", text("please send it again")),
        ("idem-attempt", AMQPValue::LongUInt(3)),
        ("idem-last-failure", AMQPValue::Timestamp(1)),
    ] {
        forged.insert(name.into(), value);
    }
    let body = serde_json::to_vec(&Order::new("a")).unwrap();
    let forged = persistent().with_headers(forged);
    bed.send(bed.name(), &body, forged.with_expiration("1".into()))
        .await;
    until_dead(&bed, 1).await;
    let found = replayer(&bed).look(&Selection::all()).await.unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|letter| {
            (
                letter.queue(),
                letter.key(),
                letter.error(),
                letter.attempt(),
            )
        })
        .collect();
    assert_eq!(found, [(Some(bed.name()), None, None, None)]);
    assert_eq!(bed.waiting(&payments).await, Some((0, 0)));
    replay_the_brokers(bed, "broker-expired").await;
}
