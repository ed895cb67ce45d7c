//! What a client does when a reply does not come in time.

use std::{sync::Arc, time::Duration};

use idem_amqp::{
    Client,
    client::{Again, CallError},
};
use idem_tests::{
    bed::{Bed, persistent},
    journal::{LIMIT, eventually, within},
    leases::CreateLease,
    responder::{Asked, Responder},
};
use lapin::types::{AMQPValue, FieldTable};
use tokio::sync::Semaphore;

const SOON: Duration = Duration::from_millis(300);

/// A client that soon tries again, and never gives up.
async fn client(bed: &Bed) -> Client {
    let client = Client::builder().queue(bed.name());
    let client = client.timeout(SOON).deadline(LIMIT);
    client.connect(bed.url()).await.unwrap()
}

/// What must be the same at every try.
fn what_stays(asked: &Asked) -> (String, String, Vec<u8>) {
    let (key, correlation) = (asked.message_id(), asked.correlation_id());
    (key, correlation, asked.body.clone())
}

/// The reply is lost.
///
/// - does: sends the request again, unchanged, until there is a reply
#[tokio::test]
async fn a_request_whose_reply_is_lost_is_sent_again_as_it_was_until_there_is_one() {
    let bed = Bed::new().await;
    let responder = Responder::start(&bed, bed.name(), async |asked: Asked| match asked.number {
        0 | 1 => Vec::new(),
        _ => vec![asked.granted().replayed(true)],
    });
    let client = client(&bed).await;
    let call = client.call(&CreateLease::of("printer")).key("printer-1");
    let replied = call.await.unwrap();
    assert!(replied.replayed);
    let asked = responder.asked.entries();
    let first = what_stays(&asked[0]);
    assert_eq!(first.0, "printer-1");
    for again in &asked[1..] {
        assert_eq!(what_stays(again), first);
        assert_eq!(again.reply_to(), asked[0].reply_to());
    }
    assert!(client.counts().tries >= 3, "{}", client.counts());
}

/// The reply to an earlier try comes after a later one was sent.
///
/// - does: ends the call; the later reply is counted and ignored
#[tokio::test]
async fn a_reply_to_an_earlier_try_ends_the_call_and_the_later_one_is_ignored() {
    let bed = Bed::new().await;
    let gate = Arc::new(Semaphore::new(0));
    let shut = Arc::clone(&gate);
    let responder = Responder::start(&bed, bed.name(), move |asked: Asked| {
        let gate = Arc::clone(&shut);
        async move {
            gate.acquire().await.unwrap().forget();
            vec![asked.granted().replayed(asked.number > 0)]
        }
    });
    let client = client(&bed).await;
    let call = client.call(&CreateLease::of("printer"));
    let call = tokio::spawn(call.into_future());
    responder.asked.count("a second try", 2).await;
    gate.add_permits(1000);
    within("the reply", call).await.unwrap().unwrap();
    eventually("the others came late", async || {
        let counts = client.counts();
        match counts.tries - counts.late {
            1 => Ok(()),
            _ => Err(counts),
        }
    })
    .await;
    let counts = client.counts();
    assert_eq!((counts.replies, counts.foreign), (1, 0), "{counts}");
}

/// A reply comes twice.
///
/// - does: ignores the second one
#[tokio::test]
async fn a_reply_that_comes_twice_ends_one_call_once() {
    let bed = Bed::new().await;
    let _responder = Responder::start(&bed, bed.name(), async |asked: Asked| {
        vec![asked.granted(), asked.granted().replayed(true)]
    });
    let client = Client::connect(bed.url(), bed.name()).await.unwrap();
    for number in 0..10 {
        let call = client
            .call(&CreateLease::of(&number.to_string()))
            .timeout(LIMIT);
        let replied = call.deadline(LIMIT).await.unwrap();
        assert_eq!(replied.reply.name, number.to_string());
    }
    eventually("each second one is late", async || {
        let counts = client.counts();
        match counts.late {
            10 => Ok(()),
            _ => Err(counts),
        }
    })
    .await;
    assert_eq!(client.counts().replies, 10);
}

/// The deadline passes without a reply.
///
/// - does: says that the request may have been handled, and its key; a call with that key finds out
#[tokio::test]
async fn a_call_beyond_its_deadline_is_unknown_and_is_repeated_under_its_key() {
    let bed = Bed::new().await;
    let deaf = Responder::start(&bed, bed.name(), async |_| Vec::new());
    let client = client(&bed).await;
    let request = CreateLease::of("printer");
    let call = client.call(&request).deadline(4 * SOON);
    let id = call.id().to_owned();
    let unknown = call.await.unwrap_err();
    let advice = format!("call again with `.key(\"{id}\")`");
    assert!(unknown.to_string().contains(&advice), "{unknown}");
    let CallError::Unknown { key, again, last } = unknown else {
        panic!("{unknown:?}")
    };
    assert_eq!((&key, again), (&id, Again::Key));
    assert!(
        last.to_string().starts_with("no reply came within"),
        "{last}"
    );
    let asked = deaf.asked.count("the request", 1).await;
    let first = what_stays(&asked[0]);
    drop(deaf);

    let responder = Responder::granting(&bed);
    client.call(&request).key(key).await.unwrap();
    // Also a try of the first call may have waited for it.
    let asked = responder.asked.entries();
    let again = asked.iter().map(what_stays).find(|it| it.1 != first.1);
    let again = again.expect("another call, another correlation id");
    assert_eq!((again.0, again.2), (first.0, first.2));
    let counts = client.counts();
    assert_eq!((counts.in_flight, counts.replies), (0, 1), "{counts}");
    assert_eq!((counts.given_up, counts.unanswered), (1, 0), "{counts}");
}

/// A call is dropped.
///
/// - does: keeps nothing of it, sends nothing again, ignores its reply
#[tokio::test]
async fn a_call_that_is_dropped_leaves_nothing_behind_and_its_reply_is_ignored() {
    let bed = Bed::new().await;
    let gate = Arc::new(Semaphore::new(0));
    let shut = Arc::clone(&gate);
    let responder = Responder::start(&bed, bed.name(), move |asked: Asked| {
        let gate = Arc::clone(&shut);
        async move {
            gate.acquire().await.unwrap().forget();
            vec![asked.granted()]
        }
    });
    let client = Client::connect(bed.url(), bed.name()).await.unwrap();
    drop(client.call(&CreateLease::of("never awaited")));
    let call = client.call(&CreateLease::of("printer")).timeout(LIMIT);
    let call = tokio::spawn(call.into_future());
    responder.asked.count("the request has arrived", 1).await;
    assert_eq!(client.counts().in_flight, 1);
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    let counts = client.counts();
    assert_eq!((counts.in_flight, counts.given_up), (0, 1), "{counts}");
    gate.add_permits(1);
    eventually("its reply is late", async || {
        let counts = client.counts();
        match (counts.late, counts.replies) {
            (1, 0) => Ok(()),
            _ => Err(counts),
        }
    })
    .await;
    assert_eq!(client.counts().tries, 1, "nothing is sent again");
}

/// A full queue refuses the request.
///
/// - does: sends it again later
#[tokio::test]
async fn a_request_that_a_full_queue_refuses_is_sent_again_when_there_is_room() {
    let bed = Bed::bare().await;
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), 1.into());
    let reject = AMQPValue::LongString("reject-publish".into());
    arguments.insert("x-overflow".into(), reject);
    bed.declare_foreign(bed.name(), arguments).await;
    bed.send(bed.name(), b"in the way", persistent()).await;
    let client = client(&bed).await;
    let request = CreateLease::of("printer");
    // Longer than a busy machine may stall the broker: it refuses the request before.
    let deadline = Duration::from_secs(8);
    let refused = client.call(&request).deadline(deadline).timeout(LIMIT);
    match refused.await {
        Err(CallError::Unknown { last, .. }) => {
            let last = last.to_string();
            assert_eq!(
                last,
                "the broker did not take the last try: its queue is full"
            );
        }
        other => panic!("{other:?}"),
    }
    let call = tokio::spawn(client.call(&request).into_future());
    eventually("a try", async || match client.counts().tries {
        0 | 1 => Err(client.counts()),
        _ => Ok(()),
    })
    .await;
    bed.drain(bed.name()).await;
    let _responder = Responder::granting(&bed);
    within("it is answered", call).await.unwrap().unwrap();
    bed.delete(bed.name()).await;
}
