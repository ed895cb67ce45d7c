//! Messages whose properties the AMQP client cannot read: no process ends of them, and no queue stops.

use idem_amqp::{
    Client, MemoryStore, Worker,
    dead_letters::{LetterError, LetterOutcome, Selection},
    executor::ExecutionKind as Kind,
    session::Sessions,
};
use idem_tests::{
    bed::{Bed, dead, persistent},
    foreign_publisher::{ForeignPublisher, Hostile, Readable, publish_foreign, publish_hostile},
    journal::{Journal, LIMIT},
    leases::CreateLease,
    requester::Requester,
    responder::Responder,
    running::{Running, assert_balance},
    script::{Order, Script, charge},
    session::{Session, control},
};
use lapin::types::{AMQPValue, FieldTable};

use crate::{
    connections::waiting,
    replays::{replay_to, replayer, tally, until_dead},
    sessions::{self, counts, serving},
};

const NAMED: Readable<'static> = Readable {
    message_id: Some("m-1"),
    reply_to: None,
    correlation_id: None,
};

fn order(id: &str) -> Vec<u8> {
    serde_json::to_vec(&Order::new(id)).unwrap()
}

/// The message is dead-lettered, those before and behind it are handled, and none comes twice.
async fn dead_lettered_alone(hostile: Hostile, told: &str) {
    let bed = Bed::new().await;
    let script = Script::succeeding();
    bed.order("a").await;
    publish_hostile(bed.url(), bed.name(), hostile, NAMED, &order("h")).await;
    bed.order("b").await;
    let worker = bed.charging(MemoryStore::new(), &script);

    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "unreadable");
    assert!(letter.error().contains(told), "{}", letter.error());
    assert_eq!(letter.body, order("h"));
    let routing_key = letter.header("idem-routing-key");
    assert_eq!(routing_key.as_deref(), Some(bed.name()));
    assert_eq!(letter.header("idem-unreadable"), None);
    let id = letter.properties.message_id().as_ref();
    assert_eq!(id.map(ToString::to_string).as_deref(), Some("m-1"));
    worker.ended(Kind::Executed, 2).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::Undecodable, 1)]);
    assert_eq!(balance.incidents().to_string(), "");
    script.assert_effects(["a", "b"]);
    bed.assert_nothing_stuck().await;
}

/// Headers are tables or arrays nested more than 64 deep.
///
/// - does: dead-letters it, `unreadable`, with its body and all properties that can be read; the messages beside it are
///   handled, and not returned
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn headers_nested_1500_deep_dead_letter_their_message_alone() {
    dead_lettered_alone(Hostile::Nested(1_500), "nested").await;
}

/// Shares the promise of `unreadable::headers_nested_1500_deep_dead_letter_their_message_alone`.
#[tokio::test]
async fn headers_nested_as_deep_as_a_frame_allows_dead_letter_their_message_alone() {
    dead_lettered_alone(Hostile::Nested(26_000), "nested").await;
}

/// Shares the promise of `unreadable::a_property_that_is_not_utf_8_dead_letters_its_message_alone`.
#[tokio::test]
async fn a_headers_name_that_is_not_utf_8_dead_letters_its_message_alone() {
    dead_lettered_alone(Hostile::NameNotUtf8, "UTF-8").await;
}

/// A property, or the name of a header, is not UTF-8.
///
/// - does: dead-letters the message, `unreadable`, with its body and all properties that can be read; the messages
///   beside it are handled, and not returned
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn a_property_that_is_not_utf_8_dead_letters_its_message_alone() {
    dead_lettered_alone(Hostile::TypeNotUtf8, "UTF-8").await;
}

/// The routing key or the exchange of a message is not UTF-8.
///
/// - does: dead-letters the message, `unreadable`, and shows `?` for each byte that is not ASCII
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn a_routing_key_that_is_not_utf_8_dead_letters_its_message_alone() {
    let bed = Bed::new().await;
    let exchange = bed.another("topics");
    bed.declare_foreign_exchange(&exchange).await;
    bed.bind(bed.name(), &exchange, "#").await;
    let properties = Hostile::Large(9).properties(NAMED);
    let key = b"commande.pass\xe9e";
    publish_foreign(bed.url(), &exchange, key, &properties, &order("h")).await;
    bed.order("a").await;
    let script = Script::succeeding();
    let worker = bed.charging(MemoryStore::new(), &script);

    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "unreadable");
    assert!(letter.error().contains("routing key"), "{}", letter.error());
    let shown = letter.header("idem-routing-key");
    assert_eq!(shown.as_deref(), Some("commande.pass?e"));
    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Undecodable, 1)]);
    script.assert_effects(["a"]);
    bed.delete_exchange(&exchange).await;
    bed.assert_nothing_stuck().await;
}

/// A message's properties are larger than a frame of the worker's connection.
///
/// - does: dead-letters it, `unreadable`; running handlers go on
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
///
/// A broker splits a body into frames as small as its client asks for, but no headers.
#[tokio::test]
async fn headers_larger_than_a_frame_dead_letter_their_message_alone() {
    let bed = Bed::new().await;
    let (script, go_on) = waiting();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let small_frames = bed.url_by(bed.broker().port(), "?frame_max=8192");
    let worker = Running::start(worker.consume::<charge>(bed.queue()), small_frames);
    for id in ["a", "b", "c"] {
        bed.order(id).await;
    }
    script.calls.count("the handlers run", 3).await;
    let body = vec![b'x'; 20_000];
    publish_hostile(bed.url(), bed.name(), Hostile::Large(10_000), NAMED, &body).await;

    // The first three run on: nothing that is beside it is returned.
    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "unreadable");
    assert!(letter.error().contains("frame_max"), "{}", letter.error());
    assert_eq!(letter.body, body);
    go_on.add_permits(3);
    worker.ended(Kind::Executed, 3).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 3), (Kind::Undecodable, 1)]);
    assert_eq!(balance.incidents().to_string(), "");
    script.assert_effects(["a", "b", "c"]);
    bed.assert_nothing_stuck().await;
}

/// Very many unreadable messages come among others.
///
/// - does: dead-letters each once
/// - atomic: kept as dead letters
/// - leased: kept as dead letters
#[tokio::test]
async fn unreadable_messages_among_others_take_nothing_from_them() {
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let worker = bed.charging(MemoryStore::new(), &script);
    let mut publisher = ForeignPublisher::connect(bed.url()).await.unwrap();
    for number in 0..50 {
        for hostile in Hostile::ALL {
            let properties = hostile.properties(NAMED);
            let body = order("h");
            let sent = publisher.publish("", bed.name().as_bytes(), &properties, &body);
            sent.await.unwrap();
        }
        bed.order(&format!("o-{number}")).await;
    }
    worker.ended(Kind::Executed, 50).await;
    worker.ended(Kind::Undecodable, 150).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 50), (Kind::Undecodable, 150)]);
    assert_eq!(balance.incidents().to_string(), "");
    assert_eq!(bed.drain(&dead(bed.name())).await.len(), 150);
    bed.assert_nothing_stuck().await;
}

/// Unreadable messages come to the queue of registrations of sessions.
///
/// - does: refuses each as `undecodable` if its `reply_to` can be read; opens other clients' sessions
/// - atomic: no effect
/// - leased: no effect
#[tokio::test]
async fn unreadable_messages_among_registrations_are_refused_and_take_nothing_from_them() {
    let bed = sessions::bed().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    let asking = Readable {
        reply_to: Some(requester.reply_to()),
        ..NAMED
    };
    for hostile in Hostile::ALL {
        for readable in [asking, NAMED] {
            publish_hostile(bed.url(), &control(bed.name()), hostile, readable, b"{}").await;
        }
        let refusal = requester.reply().await.refusal();
        assert_eq!(refusal.as_deref(), Some("undecodable"), "{hostile:?}");
    }
    let session = Session::open(&requester, bed.name()).await;
    assert_eq!(session.ask(0, 0, &order("a")).await.refusal(), None);
    let balance = worker.stop().await;
    let expected = counts(|counts| {
        (counts.opened, counts.undecodable, counts.undelivered) = (1, 6, 3);
    });
    assert_eq!(balance.sessions(), expected);
    assert_balance(&balance, [(Kind::Executed, 1)]);
    assert_eq!(balance.incidents().to_string(), "");
    bed.assert_nothing_stuck().await;
}

/// A publisher writes the header by which idem marks unreadable messages for itself.
///
/// - does: runs the message: a worker believes only the mark with its own process's secret
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_header_that_looks_like_the_mark_of_unreadable_properties_is_the_publishers_own() {
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let worker = bed.charging(MemoryStore::new(), &script);
    let secret = "0123456789abcdef0123456789abcdef not UTF-8";
    for (id, value) in [("a", ""), ("b", secret)] {
        let mut headers = FieldTable::default();
        let value = AMQPValue::LongString(value.into());
        headers.insert("idem-unreadable".into(), value);
        let forged = persistent().with_headers(headers);
        bed.send(bed.name(), &order(id), forged).await;
    }
    worker.ended(Kind::Executed, 2).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 2)]);
    script.assert_effects(["a", "b"]);
    bed.assert_nothing_stuck().await;
}

/// A request's properties cannot be read.
///
/// - does: dead-letters it; refuses it as `unreadable` if its `reply_to` can be read
/// - atomic: no effect
/// - leased: no effect
#[tokio::test]
async fn the_requester_of_an_unreadable_request_is_told() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    let asking = Readable {
        reply_to: Some(requester.reply_to()),
        correlation_id: Some("c-1"),
        ..NAMED
    };
    let hostile = Hostile::Nested(1_500);
    publish_hostile(bed.url(), bed.name(), hostile, asking, &order("h")).await;
    let worker = bed.charging(MemoryStore::new(), &Script::succeeding());

    let reply = requester.reply().await;
    assert_eq!(reply.refusal().as_deref(), Some("unreadable"));
    let correlation_id = reply.properties.correlation_id().as_ref();
    assert_eq!(
        correlation_id.map(ToString::to_string).as_deref(),
        Some("c-1")
    );
    assert_eq!(bed.dead_letter().await.reason(), "unreadable");
    worker.ended(Kind::Undecodable, 1).await;
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// A message in the reply queue has properties that cannot be read.
///
/// - does: counts it as foreign and ignores it: its headers might have said that it is a refusal
#[tokio::test]
async fn an_unreadable_reply_is_ignored_and_the_call_has_its_own() {
    let bed = Bed::new().await;
    let url = bed.url().to_owned();
    let responder = Responder::start(&bed, bed.name(), move |asked| {
        let url = url.clone();
        async move {
            for hostile in Hostile::ALL {
                let (reply_to, correlation_id) = (asked.reply_to(), asked.correlation_id());
                let readable = Readable {
                    correlation_id: Some(&correlation_id),
                    ..NAMED
                };
                publish_hostile(&url, &reply_to, hostile, readable, b"{}").await;
            }
            vec![asked.granted()]
        }
    });
    let client = Client::builder()
        .queue(bed.name())
        .timeout(LIMIT)
        .deadline(LIMIT);
    let client = client.connect(bed.url()).await.unwrap();
    let replied = client.call(&CreateLease::of("printer")).await.unwrap();

    assert_eq!(replied.reply.name, "printer");
    assert_eq!((client.counts().tries, client.counts().foreign), (1, 3));
    drop(responder);
    bed.assert_nothing_stuck().await;
}

/// The properties of a dead letter cannot be read.
///
/// - does: lists it as `unreadable`, leaves it where it is and says so, or discards it
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn an_unreadable_dead_letter_can_be_looked_at_and_discarded_and_is_not_sent_again() {
    let bed = Bed::new().await;
    for hostile in Hostile::ALL {
        publish_hostile(bed.url(), &dead(bed.name()), hostile, NAMED, &order("h")).await;
    }
    until_dead(&bed, 3).await;
    let found = replayer(&bed).look(&Selection::all()).await.unwrap();
    assert_eq!(found.len(), 3);
    for letter in &found {
        assert_eq!((letter.reason(), letter.queue()), ("unreadable", None));
        assert_eq!(letter.message_id(), Some("m-1"));
        assert_eq!(letter.body(), order("h"));
        assert_eq!(letter.header_names(), [""; 0]);
        assert!(letter.error().unwrap().contains("correct its publisher"));
    }
    until_dead(&bed, 3).await;
    let told = Journal::<String>::default();
    let journal = told.clone();
    let replaying = replayer(&bed).on_letter(move |dealt| match dealt.outcome {
        LetterOutcome::Failed(error @ LetterError::Unreadable { .. }) => {
            journal.write(error.to_string());
        }
        other => panic!("{other:?}"),
    });
    let replayed = replaying.replay(&Selection::all()).await.unwrap();
    assert_eq!(tally(replayed), [3, 0, 0, 3, 0]);
    assert!(told.entries()[0].contains("discard it"), "{told:?}");
    until_dead(&bed, 3).await;
    let discarded = replayer(&bed).discard(&Selection::all()).await.unwrap();
    assert_eq!(tally(discarded), [3, 0, 3, 0, 0]);
    bed.assert_nothing_stuck().await;
}

/// The message was unreadable, and can be read now.
///
/// - does: runs it, without the headers that could not be read
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_dead_letter_of_an_unreadable_message_executes_when_it_is_replayed() {
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let worker = bed.charging(MemoryStore::new(), &script);
    publish_hostile(
        bed.url(),
        bed.name(),
        Hostile::NameNotUtf8,
        NAMED,
        &order("a"),
    )
    .await;
    worker.ended(Kind::Undecodable, 1).await;
    worker.stop().await;
    until_dead(&bed, 1).await;
    let worker = bed.charging(MemoryStore::new(), &script);
    replay_to(worker, bed, &script, "a").await;
}
