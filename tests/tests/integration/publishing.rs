//! What a publisher promises.

use futures_util::future::join_all;
use idem_amqp::{Publication, PublishError, Publisher};
use idem_tests::{bed::Bed, script::Order};

/// A message is published.
///
/// - does: gives it an id and a content type, makes it persistent, waits for the confirm
#[tokio::test]
async fn a_published_message_has_an_id_a_content_type_and_survives_a_restart() {
    let bed = Bed::new().await;
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let order = Publication::json(bed.name(), &Order::new("a"));
    publisher.publish(&order).await.unwrap();

    // Confirmed: it is there at once.
    assert_eq!(bed.waiting(bed.name()).await, Some((1, 0)));
    let message = bed.dead_letter_in(bed.name()).await;
    let text = |text: &Option<lapin::types::ShortString>| text.as_ref().map(ToString::to_string);
    assert_eq!(
        text(message.properties.message_id()).as_deref(),
        Some(order.id())
    );
    assert_eq!(order.id().len(), 36, "a UUID");
    let content_type = text(message.properties.content_type());
    assert_eq!(content_type.as_deref(), Some("application/json"));
    assert_eq!(message.properties.delivery_mode(), &Some(2));
    bed.assert_nothing_stuck().await;
}

/// No queue takes the message that is published.
///
/// - does: returns an error for this message alone
#[tokio::test]
async fn a_message_that_no_queue_takes_is_an_error_for_it_alone() {
    let bed = Bed::new().await;
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let nowhere = format!("{}-nowhere", bed.name());
    // At the same time, so that they share a batch.
    let answers = join_all((0..100).map(|number| {
        let queue = if number % 10 == 3 {
            &nowhere
        } else {
            bed.name()
        };
        let order = Publication::json(queue, &Order::new(&number.to_string()));
        let publisher = publisher.clone();
        async move { publisher.publish(&order).await }
    }))
    .await;
    for (number, answer) in answers.into_iter().enumerate() {
        match answer {
            Err(PublishError::Unroutable { routing_key, .. }) if number % 10 == 3 => {
                assert_eq!(routing_key, nowhere);
            }
            answer => assert!(number % 10 != 3 && answer.is_ok(), "{answer:?}"),
        }
    }
    assert_eq!(bed.waiting(bed.name()).await, Some((90, 0)));
    for _ in 0..90 {
        bed.dead_letter_in(bed.name()).await;
    }
    bed.assert_nothing_stuck().await;
}

/// A publisher is asked to leave numbers missing, to send what cannot be encoded, or to number messages without a name.
///
/// - does: says so, and sends nothing
#[tokio::test]
async fn a_message_that_cannot_be_encoded_is_an_error_when_it_is_published_and_takes_no_number() {
    let bed = Bed::new().await;
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let numbered = publisher.sequence("till-4").unwrap();
    let wrong = Publication::json(bed.name(), &Order::new("a")).message_id(&"x".repeat(256));
    for error in [
        publisher.publish(&wrong).await.unwrap_err(),
        numbered.publish(&wrong).await.unwrap_err(),
    ] {
        assert!(matches!(error, PublishError::Encode(_)), "{error:?}");
    }
    assert_eq!(numbered.unconfirmed(), 0);
    assert_eq!(bed.waiting(bed.name()).await, Some((0, 0)));
    bed.assert_nothing_stuck().await;
}

/// A full queue refuses the message that is published.
///
/// - does: returns an error
#[tokio::test]
async fn a_message_that_a_full_queue_refuses_is_an_error() {
    let bed = Bed::bare().await;
    let mut arguments = lapin::types::FieldTable::default();
    arguments.insert("x-max-length".into(), 1.into());
    let reject = lapin::types::AMQPValue::LongString("reject-publish".into());
    arguments.insert("x-overflow".into(), reject);
    bed.declare_foreign(bed.name(), arguments).await;
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let order = Publication::json(bed.name(), &Order::new("a"));
    publisher.publish(&order).await.unwrap();
    let refused = publisher.publish(&order).await;
    assert!(
        matches!(refused, Err(PublishError::Refused { .. })),
        "{refused:?}"
    );
    bed.dead_letter_in(bed.name()).await;
    bed.assert_nothing_stuck().await;
}

/// Two messages are published.
///
/// - does: gives them different ids
#[tokio::test]
async fn two_publications_never_have_the_same_id() {
    let ids = (0..1000).map(|_| {
        let publication = Publication::bytes("orders", "x");
        publication.id().to_owned()
    });
    let ids: std::collections::HashSet<_> = ids.collect();
    assert_eq!(ids.len(), 1000);
}
