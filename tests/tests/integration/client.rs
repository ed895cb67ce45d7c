//! What a client promises when nothing goes wrong with its connection.

use futures_util::future::join_all;
use idem_amqp::{
    Client, Request,
    client::{CallError, ClientError, ReplyTo},
    handler::Refusal,
};
use idem_tests::{
    bed::Bed,
    journal::{LIMIT, eventually, within},
    leases::{CreateLease, Lease, LeaseError},
    proxy::Proxy,
    responder::{Asked, Responder},
    servers::off_thread,
};
use lapin::types::{AMQPValue, ShortString};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A client that is as patient as the tests are: no request is sent twice.
async fn client(bed: &Bed) -> Client {
    let client = patient(bed).connect(bed.url()).await;
    client.unwrap()
}

fn patient(bed: &Bed) -> idem_amqp::client::ClientBuilder {
    let client = Client::builder().queue(bed.name());
    client.timeout(LIMIT).deadline(LIMIT)
}

/// A call is made.
///
/// - does: sends a persistent request under a key of its own, brings the reply in the request's types
#[tokio::test]
async fn a_call_brings_the_typed_reply() {
    let bed = Bed::new().await;
    let responder = Responder::granting(&bed);
    let client = client(&bed).await;
    let request = CreateLease::of("printer");
    let call = client.call(&request).header("tenant", "a");
    let id = call.id().to_owned();
    let replied = call.await.unwrap();

    let lease = Lease {
        name: "printer".into(),
        number: 0,
    };
    assert_eq!((replied.reply, replied.replayed), (lease, false));
    let asked = responder.asked.entries().remove(0);
    assert_eq!(asked.lease(), request);
    assert_eq!(asked.message_id(), id);
    assert_eq!(id.len(), 36, "a UUID");
    let properties = &asked.properties;
    assert_eq!(properties.delivery_mode(), &Some(2));
    let content_type = properties.content_type().as_ref().map(ShortString::as_str);
    assert_eq!(content_type, Some("application/json"));
    let headers = properties.headers().as_ref().unwrap();
    let tenant = AMQPValue::LongString("a".into());
    assert_eq!(headers.inner().get("tenant"), Some(&tenant));
    let counts = client.counts();
    assert_eq!(
        counts.to_string(),
        "calls=1 in_flight=0 given_up=0 unanswered=0 tries=1 replies=1 replayed=0 refused=0 late=0 foreign=0"
    );
    drop(responder);
    bed.assert_nothing_stuck().await;
}

/// The reply is repeated from memory.
///
/// - does: says so
#[tokio::test]
async fn a_reply_that_is_repeated_from_memory_says_so() {
    let bed = Bed::new().await;
    let _responder = Responder::start(&bed, bed.name(), async |asked: Asked| {
        vec![asked.granted().replayed(asked.number > 0)]
    });
    let client = client(&bed).await;
    let request = CreateLease::of("printer");
    let mut replayed = Vec::new();
    for _ in 0..2 {
        let replied = client.call(&request).key("printer-1").await.unwrap();
        replayed.push(replied.replayed);
    }
    assert_eq!(replayed, [false, true]);
    assert_eq!(client.counts().replayed, 1);
}

/// The handler refuses the request with its own error.
///
/// - does: brings that error
#[tokio::test]
async fn a_refusal_is_the_requests_own_error() {
    let bed = Bed::new().await;
    let _responder = Responder::start(&bed, bed.name(), async |asked: Asked| {
        let error = LeaseError::Taken { by: "me".into() };
        let refusal = json!({"code": "rejected", "message": "taken", "error": error});
        vec![asked.answer(&refusal).refused("rejected").replayed(false)]
    });
    let client = client(&bed).await;
    let refused = client.call(&CreateLease::of("printer")).await;
    let by = match refused {
        Err(CallError::Refused(LeaseError::Taken { by })) => by,
        other => panic!("{other:?}"),
    };
    assert_eq!(by, "me");
    assert_eq!(client.counts().refused, 1);
}

/// The request is refused without an error of its own.
///
/// - does: tells code and message
#[tokio::test]
async fn a_refusal_without_an_error_of_the_requests_own_is_told_by_its_code() {
    let bed = Bed::new().await;
    let _responder = Responder::start(&bed, bed.name(), async |asked: Asked| {
        let refusal = json!({"code": "exhausted", "message": "10 attempts failed"});
        vec![asked.answer(&refusal).refused("exhausted").replayed(false)]
    });
    let client = client(&bed).await;
    let failed = client.call(&CreateLease::of("printer")).await.unwrap_err();
    assert_eq!(
        failed.to_string(),
        "the request failed (exhausted): 10 attempts failed"
    );
    assert!(
        matches!(&failed, CallError::Failed { code, .. } if code == Refusal::EXHAUSTED),
        "{failed:?}"
    );
}

/// The reply does not decode.
///
/// - does: names the type, keeps the bytes
#[tokio::test]
async fn a_reply_that_does_not_decode_is_told_and_kept() {
    let bed = Bed::new().await;
    let _responder = Responder::start(&bed, bed.name(), async |asked: Asked| {
        vec![asked.answer(&json!({"lease": 7}))]
    });
    let client = client(&bed).await;
    match client.call(&CreateLease::of("printer")).await {
        Err(CallError::Reply { expected, body, .. }) => {
            assert!(expected.ends_with("::Lease"), "{expected}");
            assert_eq!(body, br#"{"lease":7}"#);
        }
        other => panic!("{other:?}"),
    }
}

/// The queue of a call does not exist.
///
/// - does: returns an error at once, for this call alone: the request was not handled
#[tokio::test]
async fn a_request_to_a_queue_that_does_not_exist_is_unroutable_at_once() {
    let bed = Bed::new().await;
    let _responder = Responder::granting(&bed);
    let client = client(&bed).await;
    let nowhere = format!("{}-nowhere", bed.name());
    // At the same time, so that their confirms share frames.
    let answers = join_all((0..100).map(|number| {
        let lost = number % 10 == 3;
        let client = client.to(if lost { &nowhere } else { bed.name() });
        async move { client.call(&CreateLease::of(&number.to_string())).await }
    }));
    let answers = within("all calls end", answers).await;
    for (number, answer) in answers.into_iter().enumerate() {
        match answer {
            Err(CallError::Unroutable { queue }) if number % 10 == 3 => assert_eq!(queue, nowhere),
            answer => assert!(number % 10 != 3 && answer.is_ok(), "{number}: {answer:?}"),
        }
    }
    let counts = client.counts();
    assert_eq!((counts.tries, counts.in_flight), (100, 0), "{counts}");
    assert_eq!((counts.given_up, counts.unanswered), (0, 10), "{counts}");
}

#[derive(Serialize, Deserialize)]
struct Inexpressible(std::collections::BTreeMap<(u8, u8), u8>);

impl Request for Inexpressible {
    type Reply = ();
    type Error = ();
}

/// The request cannot be sent: JSON cannot express it, its key is empty or too long.
///
/// - does: returns an error that says why; sends nothing
#[tokio::test]
async fn a_request_that_cannot_be_sent_says_why_and_nothing_is_sent() {
    let bed = Bed::new().await;
    let client = client(&bed).await;
    let request = Inexpressible([((1, 2), 3)].into());
    let error = client.call(&request).await.unwrap_err();
    assert!(matches!(error, CallError::Request(_)), "{error:?}");
    let request = CreateLease::of("printer");
    for (call, expected) in [
        (client.call(&request).key(""), "its key has 0 bytes"),
        (
            client.call(&request).header("idem-reason", "x"),
            "`idem-reason`",
        ),
        (
            client.to("x".repeat(256)).call(&request),
            "name has 256 bytes",
        ),
    ] {
        assert_eq!(call.id(), "");
        match call.await {
            Err(CallError::Request(why)) => {
                assert!(why.to_string().contains(expected), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(client.counts().tries, 0);
    assert_eq!(bed.waiting(bed.name()).await, Some((0, 0)));
}

/// Two hundred calls are in flight, of clones and to several queues.
///
/// - does: uses one connection; each gets its own reply
#[tokio::test]
async fn two_hundred_calls_at_once_share_one_connection_with_all_clones() {
    let bed = Bed::new().await;
    let other = bed.another("other");
    bed.declare(&other.as_str().into()).await;
    let _responders = [bed.name(), &other].map(|queue| {
        let from = queue.to_owned();
        Responder::start(&bed, queue, move |asked: Asked| {
            let name = format!("{} of {from}", asked.lease().name);
            async move { vec![asked.answer(&Lease { name, number: 0 })] }
        })
    });
    let mut proxy = Proxy::open(bed.broker().port()).await;
    let url = bed.url_by(proxy.port(), "");
    let client = patient(&bed).connect(url).await.unwrap();
    // From now on, there is no further connection.
    proxy.close().await;

    let calls = join_all((0..200).map(|number| {
        let client = match number % 3 {
            0 => client.clone(),
            1 => client.to(bed.name()),
            _ => client.to(&other),
        };
        tokio::spawn(async move {
            let replied = client
                .call(&CreateLease::of(&number.to_string()))
                .await
                .unwrap();
            let expected = format!("{number} of {}", client.queue());
            assert_eq!(replied.reply.name, expected);
        })
    }));
    for call in within("all are answered", calls).await {
        call.unwrap();
    }
    let counts = client.counts();
    assert_eq!((counts.calls, counts.tries), (200, 200), "{counts}");
    assert_eq!((counts.replies, counts.late), (200, 0), "{counts}");
}

/// Replies come by direct reply-to.
///
/// - does: declares no queue
#[tokio::test]
async fn replies_come_by_direct_reply_to_without_a_queue() {
    let bed = Bed::new().await;
    let responder = Responder::granting(&bed);
    let client = patient(&bed).reply_to(ReplyTo::Direct);
    let client = client.connect(bed.url()).await.unwrap();
    let calls = join_all((0..20).map(|number| {
        let client = client.clone();
        async move { client.call(&CreateLease::of(&number.to_string())).await }
    }));
    for (number, replied) in within("all are answered", calls).await.iter().enumerate() {
        let name = &replied.as_ref().unwrap().reply.name;
        assert_eq!(name, &number.to_string());
    }
    for asked in responder.asked.entries() {
        let reply_to = asked.reply_to();
        assert!(reply_to.starts_with("amq.rabbitmq.reply-to."), "{reply_to}");
    }
}

/// A message in the reply queue answers none of its calls.
///
/// - does: counts and ignores it
#[tokio::test]
async fn a_foreign_reply_is_ignored_and_counted() {
    let bed = Bed::new().await;
    let _responder = Responder::start(&bed, bed.name(), async |asked: Asked| {
        let id = asked.correlation_id();
        let (mark, _) = id.rsplit_once('-').unwrap();
        let wrong = asked.answer(&Lease {
            name: "somebody else's".into(),
            number: 0,
        });
        vec![
            wrong.clone().to(None),
            wrong.clone().to(Some("")),
            wrong.clone().to(Some("somebody-0")),
            // As if it were one of the client's later calls.
            wrong.to(Some(&format!("{mark}-7"))),
            asked.granted(),
        ]
    });
    let client = client(&bed).await;
    let replied = client.call(&CreateLease::of("printer")).await.unwrap();
    assert_eq!(replied.reply.name, "printer");
    let counts = client.counts();
    assert_eq!((counts.foreign, counts.late), (4, 0), "{counts}");
}

/// The client cannot connect at first.
///
/// - does: returns an error that says why
#[tokio::test]
async fn a_client_that_cannot_connect_says_why() {
    let url = "amqp://127.0.0.1:1/%2f";
    let error = Client::connect(url, "").await.unwrap_err();
    assert!(matches!(error, ClientError::NoQueue), "{error:?}");
    let error = Client::connect("http://localhost", "leases").await;
    let error = error.unwrap_err();
    assert!(matches!(error, ClientError::Broker(_)), "{error:?}");
    let error = Client::connect(url, "leases").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the broker at 127.0.0.1:1 (vhost `/`) cannot be reached"
    );
}

/// The client's user may not have a queue for replies.
///
/// - does: returns an error that says what to grant, and that direct reply-to needs none
#[tokio::test]
async fn a_client_that_may_have_no_reply_queue_says_what_to_grant() {
    let bed = Bed::new().await;
    let _responder = Responder::granting(&bed);
    let (broker, user) = (bed.broker().clone(), bed.name().to_owned());
    off_thread(move || broker.rabbitmqctl(["add_user", &user, "secret"])).await;
    let grant = async |configure: &str, read: &str| {
        let (broker, user) = (bed.broker().clone(), bed.name().to_owned());
        let (configure, read) = (configure.to_owned(), read.to_owned());
        let write = r"^amq\.default$";
        off_thread(move || {
            broker.rabbitmqctl(["set_permissions", &user, &configure, write, &read])
        })
        .await;
    };
    let url = bed
        .url()
        .replace("guest:guest", &format!("{}:secret", bed.name()));
    let request = CreateLease::of("printer");

    grant("^$", "^$").await;
    let error = patient(&bed).connect(url.as_str()).await.unwrap_err();
    assert!(matches!(error, ClientError::ReplyQueue { .. }), "{error:?}");
    let said = error.to_string();
    let granted = r"amq\.gen.*";
    for words in [granted, "configure and read", "ReplyTo::Direct"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let direct = patient(&bed).reply_to(ReplyTo::Direct);
    let direct = direct.connect(url.as_str()).await.unwrap();
    direct.call(&request).await.unwrap();

    grant(granted, granted).await;
    let client = patient(&bed).connect(url.as_str()).await.unwrap();
    client.call(&request).await.unwrap();
    bed.assert_nothing_stuck().await;
}

/// The last clone and the last call are gone.
///
/// - does: closes the connection
#[tokio::test]
async fn a_client_whose_last_clone_and_last_call_are_gone_leaves_no_connection() {
    let bed = Bed::new().await;
    let responder = Responder::granting(&bed);
    let client = client(&bed).await;
    let request = CreateLease::of("printer");
    client.call(&request).await.unwrap();
    let reply_queue = responder.asked.entries().remove(0).reply_to();
    assert!(bed.state_of(&reply_queue).await.is_some());
    let call = client.clone().call(&request);
    drop(client);
    call.await.unwrap();
    eventually("its reply queue is gone with it", async || {
        bed.state_of(&reply_queue).await.map_or(Ok(()), Err)
    })
    .await;
}
