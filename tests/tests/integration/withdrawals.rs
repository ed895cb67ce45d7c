//! Numbered messages that can never be published as they are: told, and their numbers given up.

use futures_util::future::join_all;
use idem_amqp::{
    MemoryStore, Publication, PublishError, Publisher, Worker, executor::ExecutionKind as Kind,
    sequence::SequencePublisher, worker::Settlement,
};
use idem_tests::{
    bed::{Bed, DeadLetter},
    journal::within,
    laddered::laddered,
    readings::{send_stamped, stamps, store_narrowly},
    running::{Running, assert_balance},
    script::{Order, Script},
};
use lapin::{BasicProperties, types::AMQPValue};

async fn publishing(bed: &Bed) -> SequencePublisher {
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    publisher.sequence("till-4").unwrap()
}

fn message(bed: &Bed, id: &str) -> Publication {
    Publication::json(bed.name(), &Order::new(id))
}

/// RabbitMQ closes the channel: this header has to be a list.
fn impossible(bed: &Bed, id: &str) -> Publication {
    message(bed, id).header("CC", "nobody")
}

async fn error(publisher: &SequencePublisher, message: &Publication) -> PublishError {
    let refused = within("it is an error", publisher.publish(message)).await;
    refused.unwrap_err()
}

/// The number that is stuck, and what is to be done about it.
fn stuck(error: &PublishError) -> (u64, String) {
    let PublishError::Stuck { number, .. } = error else {
        panic!("{error:?}");
    };
    (*number, error.to_string())
}

fn number(message: &DeadLetter) -> i64 {
    let Some(AMQPValue::LongLongInt(number)) = message.value("idem-sequence") else {
        panic!("no number: {message:?}");
    };
    *number
}

fn is_withdrawn(message: &DeadLetter) -> bool {
    message.value("idem-withdrawn") == Some(&AMQPValue::Boolean(true))
}

/// The broker closes the channel because of a numbered message, or no queue takes it.
///
/// - does: says at once what to do: withdraw the number, or mend where the message goes. Other messages of the batch
///   are published again
#[tokio::test]
async fn a_message_for_which_the_broker_closes_the_channel_is_told_until_its_number_is_given_up() {
    let bed = Bed::new().await;
    let publisher = publishing(&bed).await;
    publisher.publish(&message(&bed, "a")).await.unwrap();
    let impossible = impossible(&bed, "b");
    // A caller that knows nothing of it is told as well.
    for (message, is_own) in [(&impossible, true), (&message(&bed, "c"), false)] {
        let (number, text) = stuck(&error(&publisher, message).await);
        assert_eq!(number, 1);
        assert_eq!(
            text.contains("which another call left behind"),
            !is_own,
            "{text}"
        );
        assert!(text.contains("`SequencePublisher::withdraw`"), "{text}");
    }
    assert_eq!(publisher.unconfirmed(), 1);

    let withdrawn = within("it is given up", publisher.withdraw(1)).await;
    let withdrawn = withdrawn.unwrap().unwrap();
    assert_eq!(withdrawn.publication.id(), impossible.id());
    assert!(!withdrawn.may_have_arrived, "the broker has refused it");
    assert_eq!(publisher.unconfirmed(), 0);
    let again = publisher.withdraw(1).await.unwrap();
    assert!(again.is_none(), "{again:?}");
    publisher.publish(&message(&bed, "c")).await.unwrap();
    let arrived = bed.drain(bed.name()).await;
    let arrived: Vec<_> = (arrived.iter())
        .map(|message| (number(message), is_withdrawn(message), message.body.len()))
        .collect();
    let bytes = serde_json::to_vec(&Order::new("a")).unwrap().len();
    assert_eq!(
        arrived,
        [(0, false, bytes), (1, true, 0), (2, false, bytes)]
    );
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of
/// `withdrawals::a_message_for_which_the_broker_closes_the_channel_is_told_until_its_number_is_given_up`.
#[tokio::test]
async fn messages_that_were_on_their_way_with_one_that_is_impossible_are_confirmed() {
    let bed = Bed::new().await;
    let publisher = publishing(&bed).await;
    let calls = (0..50).map(|id| {
        let (publisher, message) = (publisher.clone(), message(&bed, &id.to_string()));
        async move { publisher.publish(&message).await }
    });
    let impossible = impossible(&bed, "b");
    let all = async { tokio::join!(join_all(calls), publisher.publish(&impossible)) };
    let (confirmed, refused) = within("all have ended", all).await;
    for confirmed in confirmed {
        confirmed.unwrap();
    }
    let (number, _) = stuck(&refused.unwrap_err());
    assert_eq!((number, publisher.unconfirmed()), (50, 1));
    bed.drain(bed.name()).await;
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of
/// `withdrawals::a_message_for_which_the_broker_closes_the_channel_is_told_until_its_number_is_given_up`.
#[tokio::test]
async fn an_exchange_that_does_not_exist_is_told_at_once() {
    let bed = Bed::new().await;
    let publisher = publishing(&bed).await;
    let elsewhere = message(&bed, "a").exchange("nowhere", "readings");
    let (number, text) = stuck(&error(&publisher, &elsewhere).await);
    assert_eq!(number, 0);
    assert!(text.contains("`Publisher::sequence`"), "{text}");
    // Nothing can go there, so a number cannot be given up there.
    let refused = within("it is an error", publisher.withdraw(0)).await;
    assert_eq!(stuck(&refused.unwrap_err()).0, 0);
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of
/// `withdrawals::a_message_for_which_the_broker_closes_the_channel_is_told_until_its_number_is_given_up`.
#[tokio::test]
async fn a_number_whose_message_no_queue_takes_is_given_up_the_way_that_others_went() {
    let bed = Bed::new().await;
    let [good, bad] = ["good", "bad"].map(|key| format!("{}.{key}", bed.name()));
    bed.bind(bed.name(), "amq.topic", &good).await;
    let publisher = publishing(&bed).await;
    let by = |id: &str, key: &str| message(&bed, id).exchange("amq.topic", key);
    publisher.publish(&by("a", &good)).await.unwrap();
    let (stuck, text) = stuck(&error(&publisher, &by("b", &bad)).await);
    assert_eq!(stuck, 1);
    assert!(text.contains("bind one"), "{text}");
    let withdrawn = within("it is given up", publisher.withdraw(1)).await;
    assert!(withdrawn.unwrap().is_some());
    publisher.publish(&by("c", &good)).await.unwrap();
    let arrived = bed.drain(bed.name()).await;
    let arrived: Vec<_> = (arrived.iter())
        .map(|message| (number(message), is_withdrawn(message)))
        .collect();
    assert_eq!(arrived, [(0, false), (1, true), (2, false)]);
    bed.assert_nothing_stuck().await;
}

/// A message's headers do not fit into a frame of the broker's.
///
/// - does: says so before the message has a number, and sends nothing. A message without a number is refused, too, and
///   disturbs nobody on the same connection
#[tokio::test]
async fn a_message_whose_headers_fit_into_no_frame_is_refused_before_it_has_a_number() {
    let bed = Bed::new().await;
    let publisher = publishing(&bed).await;
    let large = message(&bed, "a").header("x-note", &"x".repeat(131_000));
    let refused = error(&publisher, &large).await;
    assert!(
        matches!(refused, PublishError::TooLarge { most: 131_072, .. }),
        "{refused:?}"
    );
    assert_eq!(publisher.unconfirmed(), 0);
    let fitting = message(&bed, "b").header("x-note", &"x".repeat(130_000));
    publisher.publish(&fitting).await.unwrap();
    let arrived = bed.drain(bed.name()).await;
    assert_eq!(arrived.iter().map(number).collect::<Vec<_>>(), [0]);
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `withdrawals::a_message_whose_headers_fit_into_no_frame_is_refused_before_it_has_a_number`.
#[tokio::test]
async fn a_message_whose_headers_fit_into_no_frame_disturbs_nobody_on_the_same_connection() {
    let bed = Bed::new().await;
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let large = message(&bed, "a").header("x-note", &"x".repeat(140_000));
    let other = message(&bed, "b");
    let both = async { tokio::join!(publisher.publish(&large), publisher.publish(&other)) };
    let (refused, confirmed) = within("both have ended", both).await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, PublishError::TooLarge { .. }),
        "{refused:?}"
    );
    confirmed.unwrap();
    assert_eq!(bed.drain(bed.name()).await.len(), 1);
    bed.assert_nothing_stuck().await;
}

async fn storing(bed: &Bed, script: &Script) -> Running {
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<store_narrowly>(laddered(bed.queue())));
    bed.until_consumed(bed.name(), 1).await;
    worker
}

fn withdrawn(number: u64) -> BasicProperties {
    let stamps = stamps(number);
    let mut headers = stamps.headers().clone().unwrap();
    headers.insert("idem-withdrawn".into(), AMQPValue::Boolean(true));
    stamps.with_headers(headers)
}

fn names(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers
        .into_iter()
        .map(|number| number.to_string())
        .collect()
}

/// A publisher withdraws a number.
///
/// - does: gives the number up without running anything, and acknowledges; no later number waits. If the message
///   arrives after all, it runs, unless the mark has passed its number: then it is dead-lettered, reason `late`. The
///   publisher is told that the message may have arrived
/// - atomic: at most once
/// - leased: at most once
#[tokio::test]
async fn no_later_number_waits_for_one_that_its_publisher_gave_up() {
    let bed = Bed::with_vhost().await;
    let script = Script::succeeding();
    let worker = storing(&bed, &script).await;
    let publisher = publishing(&bed).await;
    for id in ["0", "1"] {
        publisher.publish(&message(&bed, id)).await.unwrap();
    }
    error(&publisher, &impossible(&bed, "2")).await;
    publisher.withdraw(2).await.unwrap();
    for id in names(3..40) {
        publisher.publish(&message(&bed, &id)).await.unwrap();
    }
    worker.ended(Kind::Executed, 39).await;
    let ended = worker.settled.entries().into_iter();
    let given_up: Vec<_> = ended.filter(|ended| ended.kind == Kind::Rejected).collect();
    assert_eq!(given_up.len(), 1);
    assert_eq!(given_up[0].settlement, Settlement::Ack);
    assert_eq!(
        given_up[0].error.as_deref(),
        Some("its publisher has withdrawn it")
    );
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 39), (Kind::Rejected, 1)]);
    script.assert_effects(names((0..40).filter(|number| *number != 2)));
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `withdrawals::no_later_number_waits_for_one_that_its_publisher_gave_up`.
#[tokio::test]
async fn of_a_message_and_its_withdrawal_the_first_counts_and_no_letter_tells_of_the_withdrawal() {
    let bed = Bed::with_vhost().await;
    let script = Script::succeeding();
    let worker = storing(&bed, &script).await;
    send_stamped(&bed, 0..5).await;
    worker.ended(Kind::Executed, 5).await;
    // Its message was done.
    bed.send(bed.name(), b"", withdrawn(4)).await;
    worker.ended(Kind::Duplicate, 1).await;
    // What only looks like one, with a body: it is a message.
    let message = serde_json::to_vec(&Order::new("seven")).unwrap();
    bed.send(bed.name(), &message, withdrawn(7)).await;
    worker.ended(Kind::Executed, 6).await;
    // Its message comes later, when the mark has passed it, and so does a copy of the withdrawal.
    bed.send(bed.name(), b"", withdrawn(5)).await;
    worker.ended(Kind::Rejected, 1).await;
    send_stamped(&bed, (6..30).filter(|number| *number != 7)).await;
    worker.ended(Kind::Executed, 29).await;
    bed.send(bed.name(), b"", withdrawn(5)).await;
    worker.ended(Kind::Rejected, 2).await;
    send_stamped(&bed, [5]).await;
    worker.ended(Kind::Late, 1).await;
    let letter = bed.dead_letter().await;
    assert_eq!(
        (letter.reason(), letter.body.len() > 2),
        ("late".into(), true)
    );
    worker.stop().await;
    let done = names((0..30).filter(|number| ![5, 7].contains(number)));
    script.assert_effects(done.into_iter().chain(["seven".to_owned()]));
    bed.assert_nothing_stuck().await;
}
