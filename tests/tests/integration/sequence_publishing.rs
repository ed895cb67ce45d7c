//! What a publisher promises that numbers its messages.

use std::time::Duration;

use futures_util::future::join_all;
use idem_amqp::{Publication, PublishError, Publisher, sequence::SequencePublisher};
use idem_tests::{
    bed::{Bed, DeadLetter},
    journal::{eventually, within},
    proxy::Proxy,
    script::Order,
};
use lapin::types::{AMQPValue, FieldTable};

/// Where a message stands, and what it is.
type Stamped = (i64, String);

fn message(bed: &Bed, id: &str) -> Publication {
    Publication::json(bed.name(), &Order::new(id))
}

fn stamped(message: &DeadLetter) -> Stamped {
    let Some(AMQPValue::LongLongInt(number)) = message.value("idem-sequence") else {
        panic!("no number: {message:?}");
    };
    let order: Order = serde_json::from_slice(&message.body).unwrap();
    (*number, order.id)
}

/// All messages in the queue, in the order of their numbers.
async fn arrived(bed: &Bed) -> Vec<Stamped> {
    let mut arrived: Vec<_> = bed.drain(bed.name()).await.iter().map(stamped).collect();
    arrived.sort();
    arrived
}

/// The same after a link was cut: a try that nobody waits for any more may go out when the broker is back.
async fn arrived_once_or_more(bed: &Bed) -> Vec<Stamped> {
    let mut arrived = arrived(bed).await;
    arrived.dedup();
    arrived
}

fn pairs<const N: usize>(expected: [(i64, &str); N]) -> Vec<Stamped> {
    expected.map(|(number, id)| (number, id.into())).into()
}

async fn by(proxy: &Proxy, bed: &Bed) -> SequencePublisher {
    let publisher = Publisher::connect(bed.url_by(proxy.port(), "")).await;
    publisher.unwrap().sequence("till-4").unwrap()
}

async fn confirmed(publisher: &SequencePublisher, message: &Publication) {
    let call = within("it is confirmed", publisher.publish(message));
    call.await.unwrap();
}

/// A publisher numbers its messages.
///
/// - does: counts from 0, in an epoch of its own; publishes them in the order of their numbers
#[tokio::test]
async fn messages_are_numbered_from_zero_in_the_name_and_the_epoch_of_their_publisher() {
    let bed = Bed::new().await;
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let [one, other] = [(); 2].map(|()| publisher.sequence("till-4").unwrap());
    assert_ne!(one.epoch(), other.epoch());
    for id in ["a", "b"] {
        one.clone().publish(&message(&bed, id)).await.unwrap();
    }
    other.publish(&message(&bed, "c")).await.unwrap();

    let messages = bed.drain(bed.name()).await;
    let told = |message: &DeadLetter| {
        let header = |name| message.header(name).unwrap();
        (
            header("idem-producer"),
            header("idem-epoch"),
            stamped(message),
        )
    };
    let expected = [(&one, 0, "a"), (&one, 1, "b"), (&other, 0, "c")]
        .map(|(by, number, id)| (by.producer(), by.epoch(), (number, id.to_owned())));
    let told: Vec<_> = messages.iter().map(told).collect();
    assert_eq!(told, expected);
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of
/// `sequence_publishing::messages_are_numbered_from_zero_in_the_name_and_the_epoch_of_their_publisher`.
#[tokio::test]
async fn messages_published_at_once_have_each_a_number_of_their_own() {
    let bed = Bed::new().await;
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let publisher = publisher.sequence("till-4").unwrap().in_flight(50);
    let calls = (0..500).map(|id| {
        let (publisher, message) = (publisher.clone(), message(&bed, &id.to_string()));
        async move { publisher.publish(&message).await.unwrap() }
    });
    join_all(calls).await;
    assert_eq!(publisher.unconfirmed(), 0);
    let numbers = arrived(&bed).await.into_iter().map(|(number, _)| number);
    assert_eq!(numbers.collect::<Vec<_>>(), (0..500).collect::<Vec<_>>());
    bed.assert_nothing_stuck().await;
}

/// The confirm of a numbered message is lost.
///
/// - does: publishes the message again with the same number
#[tokio::test]
async fn a_message_whose_confirm_was_lost_is_published_again_with_its_number() {
    let bed = Bed::new().await;
    let proxy = Proxy::open(bed.broker().port()).await;
    let publisher = by(&proxy, &bed).await;
    publisher.publish(&message(&bed, "a")).await.unwrap();
    proxy.lose_next_answer();
    confirmed(&publisher, &message(&bed, "b")).await;
    publisher.publish(&message(&bed, "c")).await.unwrap();
    assert_eq!(proxy.lost_answers(), 1);
    let expected = pairs([(0, "a"), (1, "b"), (1, "b"), (2, "c")]);
    assert_eq!(arrived(&bed).await, expected);
    bed.assert_nothing_stuck().await;
}

/// The caller who publishes a numbered message gives up, or drops the call.
///
/// - does: keeps the message's number; the message goes before the next one, or when it is published again
#[tokio::test]
async fn a_message_that_its_caller_gave_up_keeps_its_number_and_goes_before_the_next() {
    let bed = Bed::new().await;
    let mut proxy = Proxy::open(bed.broker().port()).await;
    let publisher = by(&proxy, &bed).await;
    publisher.publish(&message(&bed, "a")).await.unwrap();
    proxy.close().await;
    proxy.cut();
    let hasty = publisher.clone().timeout(Duration::from_millis(300));
    let error = hasty.publish(&message(&bed, "b")).await.unwrap_err();
    assert!(
        matches!(
            error,
            PublishError::Unconfirmed(_) | PublishError::Broker(_)
        ),
        "{error:?}"
    );
    assert_eq!(publisher.unconfirmed(), 1);

    proxy.listen().await;
    confirmed(&publisher, &message(&bed, "c")).await;
    assert_eq!(publisher.unconfirmed(), 0);
    let all = pairs([(0, "a"), (1, "b"), (2, "c")]);
    assert_eq!(arrived_once_or_more(&bed).await, all);
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of
/// `sequence_publishing::a_message_that_its_caller_gave_up_keeps_its_number_and_goes_before_the_next`.
#[tokio::test]
async fn a_message_that_is_published_again_by_its_caller_has_the_number_that_it_had() {
    let bed = Bed::new().await;
    let mut proxy = Proxy::open(bed.broker().port()).await;
    let publisher = by(&proxy, &bed).await;
    proxy.close().await;
    proxy.cut();
    let lost = message(&bed, "a");
    let dropped = tokio::time::timeout(Duration::from_millis(300), publisher.publish(&lost));
    assert!(dropped.await.is_err());

    proxy.listen().await;
    confirmed(&publisher, &lost).await;
    publisher.publish(&message(&bed, "b")).await.unwrap();
    let both = pairs([(0, "a"), (1, "b")]);
    assert_eq!(arrived_once_or_more(&bed).await, both);
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of
/// `sequence_publishing::a_message_that_its_caller_gave_up_keeps_its_number_and_goes_before_the_next`.
#[tokio::test]
async fn what_was_left_behind_is_settled_without_a_further_message() {
    let bed = Bed::new().await;
    let mut proxy = Proxy::open(bed.broker().port()).await;
    let publisher = by(&proxy, &bed).await;
    proxy.close().await;
    proxy.cut();
    let hasty = publisher.clone().timeout(Duration::from_millis(100));
    for id in ["a", "b"] {
        hasty.publish(&message(&bed, id)).await.unwrap_err();
    }
    proxy.listen().await;
    within("all are confirmed", publisher.settle())
        .await
        .unwrap();
    let arrived = arrived_once_or_more(&bed).await;
    let next = "the next one was never sent";
    assert_eq!(arrived, pairs([(0, "a")]), "{next}");
    bed.assert_nothing_stuck().await;
}

/// The queue of a numbered message is full, or not there.
///
/// - does: if the queue is full, publishes again until there is room; if no queue takes the message, says so at once.
///   The number is kept
#[tokio::test]
async fn a_message_that_a_full_queue_refuses_is_published_again_until_there_is_room() {
    let bed = Bed::bare().await;
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), 1.into());
    let reject = AMQPValue::LongString("reject-publish".into());
    arguments.insert("x-overflow".into(), reject);
    bed.declare_foreign(bed.name(), arguments).await;
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let publisher = publisher.sequence("till-4").unwrap();
    publisher.publish(&message(&bed, "a")).await.unwrap();
    let hasty = publisher.clone().timeout(Duration::from_millis(300));
    let refusing = message(&bed, "b");
    let refused = eventually("the broker answers in time", async || {
        match hasty.publish(&refusing).await {
            Err(unconfirmed @ PublishError::Unconfirmed(_)) => Err(unconfirmed),
            told => Ok(told),
        }
    })
    .await;
    assert!(
        matches!(refused, Err(PublishError::Refused { .. })),
        "{refused:?}"
    );
    let waiting = {
        let publisher = publisher.clone();
        tokio::spawn(async move { publisher.settle().await })
    };
    let first = bed.dead_letter_in(bed.name()).await;
    assert_eq!(stamped(&first), (0, "a".into()));
    within("there is room", waiting).await.unwrap().unwrap();
    assert_eq!(arrived(&bed).await, pairs([(1, "b")]));
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of
/// `sequence_publishing::a_message_that_a_full_queue_refuses_is_published_again_until_there_is_room`.
#[tokio::test]
async fn a_message_that_no_queue_takes_is_an_error_at_once_and_keeps_its_number() {
    let bed = Bed::bare().await;
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let publisher = publisher.sequence("till-4").unwrap();
    let error = publisher.publish(&message(&bed, "a")).await.unwrap_err();
    assert!(
        matches!(error, PublishError::Stuck { number: 0, .. })
            && error.to_string().contains("declare its queue"),
        "{error:?}"
    );
    bed.declare_foreign(bed.name(), FieldTable::default()).await;
    eventually("the queue takes it", async || {
        publisher.publish(&message(&bed, "b")).await
    })
    .await;
    assert_eq!(arrived(&bed).await, pairs([(0, "a"), (1, "b")]));
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of
/// `publishing::a_message_that_cannot_be_encoded_is_an_error_when_it_is_published_and_takes_no_number`.
#[tokio::test]
async fn messages_that_go_to_another_queue_are_an_error_and_not_sent() {
    let bed = Bed::new().await;
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let publisher = publisher.sequence("till-4").unwrap();
    publisher.publish(&message(&bed, "a")).await.unwrap();
    let elsewhere = Publication::json(&format!("{}.dead", bed.name()), &Order::new("b"));
    let error = publisher.publish(&elsewhere).await.unwrap_err();
    assert!(
        matches!(error, PublishError::OtherDestination { .. }),
        "{error:?}"
    );
    assert_eq!(publisher.unconfirmed(), 0);
    assert_eq!(arrived(&bed).await, pairs([(0, "a")]));
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of
/// `publishing::a_message_that_cannot_be_encoded_is_an_error_when_it_is_published_and_takes_no_number`.
#[tokio::test]
async fn a_producer_without_a_name_is_refused() {
    let bed = Bed::new().await;
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    for name in [String::new(), "x".repeat(256)] {
        let error = publisher.sequence(&name).unwrap_err();
        assert!(
            matches!(error, PublishError::ProducerName { .. }),
            "{error:?}"
        );
    }
    publisher.sequence(&"x".repeat(255)).unwrap();
    bed.assert_nothing_stuck().await;
}
