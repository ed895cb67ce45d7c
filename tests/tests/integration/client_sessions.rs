//! What a client's session promises, whatever its server does.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use idem_amqp::{
    Client,
    client::{Again, CallError, ClientBuilder, Replied},
    handler::Refusal,
    session::{RequestNumber, Session, SessionCall, SessionError},
};
use idem_tests::{
    bed::Bed,
    journal::{LIMIT, eventually, within},
    leases::{CreateLease, Lease, LeaseError},
    proxy::Proxy,
    registrar::{Registrar, sessions},
    responder::{Asked, Responder},
};
use lapin::types::FieldTable;
use serde_json::Value;
use tokio::{sync::Semaphore, task::JoinHandle};

type Called = Result<Replied<Lease>, CallError<LeaseError>>;

/// Longer than any test takes.
const LIFE: Duration = Duration::from_mins(10);
const SOON: Duration = Duration::from_millis(300);

/// A client that sends nothing twice.
fn patient(bed: &Bed) -> ClientBuilder {
    let client = Client::builder().queue(bed.name());
    client.timeout(5 * LIMIT).deadline(5 * LIMIT)
}

async fn session(bed: &Bed) -> Session {
    let client = patient(bed).connect(bed.url()).await.unwrap();
    client.session().open().await.unwrap()
}

fn spawn(call: SessionCall<CreateLease>) -> JoinHandle<Called> {
    tokio::spawn(call.into_future())
}

fn number(session: &Session, number: u64) -> RequestNumber {
    RequestNumber {
        session: session.id().to_owned(),
        number,
    }
}

fn resume(session: &Session, request: u64) -> SessionCall<CreateLease> {
    session.resume(&number(session, request))
}

/// Answers when the gate is open.
fn gated(bed: &Bed) -> (Responder, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let shut = Arc::clone(&gate);
    let responder = Responder::start(bed, bed.name(), move |asked: Asked| {
        let gate = Arc::clone(&shut);
        async move {
            gate.acquire().await.unwrap().forget();
            vec![asked.granted().replayed(asked.number > 0)]
        }
    });
    (responder, gate)
}

/// Refuses each request with this code, from the given one on; is silent before.
fn refusing(bed: &Bed, code: &'static str, from: usize) -> Responder {
    Responder::start(bed, bed.name(), move |asked: Asked| {
        let mut answers = vec![asked.refused_as(code)];
        answers.truncate(usize::from(asked.number >= from));
        async move { answers }
    })
}

fn places(responder: &Responder) -> Vec<(i64, i64)> {
    let asked = responder.asked.entries().into_iter();
    let places = asked.map(|asked| {
        let (_, number, awaited) = asked.place();
        (number, awaited)
    });
    places.collect()
}

/// Calls are made in a session.
///
/// - does: numbers them, says with each which is the lowest answer that it awaits
#[tokio::test]
async fn a_sessions_requests_are_numbered_and_say_which_answer_is_awaited() {
    let bed = Bed::new().await;
    let registrar = Registrar::start(&bed, 7, LIFE).await;
    let responder = Responder::granting(&bed);
    let session = session(&bed).await;
    assert_eq!((session.window(), session.life()), (7, LIFE));
    let opened = &registrar.of_kind("idem.open")[0];
    assert_eq!(session.id(), opened.message_id());
    assert_eq!(opened.body, b"{}");
    for number in 0..3 {
        let call = session.call(&CreateLease::of("printer"));
        let replied = call.header("tenant", "a").await.unwrap();
        assert_eq!((replied.reply.number, replied.replayed), (number, false));
    }
    assert_eq!(places(&responder), [(0, 0), (1, 1), (2, 2)]);
    for (number, asked) in responder.asked.entries().iter().enumerate() {
        assert_eq!(asked.place().0, session.id());
        assert_eq!(asked.message_id(), format!("{}/{number}", session.id()));
        let headers = asked.properties.headers().as_ref().unwrap();
        assert!(headers.inner().contains_key("tenant"), "{headers:?}");
    }
    assert_eq!(session.unanswered(), []);
}

/// There are more calls than the window allows.
///
/// - does: lets them wait for the lowest number's answer, within their deadlines
#[tokio::test]
async fn a_request_beyond_the_window_waits_until_the_lowest_is_answered() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 3, LIFE).await;
    let (first, others) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let gates = (Arc::clone(&first), Arc::clone(&others));
    let responder = Responder::start(&bed, bed.name(), move |asked: Asked| {
        let gate = Arc::clone(if asked.place().1 == 0 {
            &gates.0
        } else {
            &gates.1
        });
        async move {
            gate.acquire().await.unwrap().forget();
            vec![asked.granted()]
        }
    });
    let session = session(&bed).await;
    let calls: Vec<_> = (0..6)
        .map(|_| spawn(session.call(&CreateLease::of("printer"))))
        .collect();
    responder
        .asked
        .count("as many as the window takes", 3)
        .await;
    // All that are in flight are answered but the lowest.
    others.add_permits(2);
    eventually("two are answered", async || {
        match calls.iter().filter(|call| call.is_finished()).count() {
            2 => Ok(()),
            finished => Err(finished),
        }
    })
    .await;
    let late = session.call(&CreateLease::of("scanner")).deadline(SOON);
    match late.await {
        Err(CallError::Unsent(why)) => assert!(why.to_string().contains("window (3)"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(responder.asked.entries().len(), 3, "the window is full");
    first.add_permits(1);
    others.add_permits(100);
    for call in within("all are answered", join_all(calls)).await {
        call.unwrap().unwrap();
    }
    for (number, awaited) in places(&responder) {
        assert!(number < awaited + 3, "{number} while {awaited} is awaited");
    }
    assert_eq!(
        responder.asked.entries().len(),
        6,
        "the late one was not sent"
    );
}

/// The answer to an opening is lost.
///
/// - does: asks again
#[tokio::test]
async fn an_opening_whose_answer_is_lost_is_asked_for_again() {
    let bed = Bed::new().await;
    let registrar = Registrar::start(&bed, 5, LIFE).await;
    registrar.lose(1);
    let client = patient(&bed).timeout(SOON).connect(bed.url());
    let client = client.await.unwrap();
    let session = client.session().open().await.unwrap();
    let asked = registrar.of_kind("idem.open");
    assert!(asked.len() >= 2, "{asked:?}");
    for asked in asked {
        assert_eq!(asked.message_id(), session.id());
    }
}

/// The server serves no sessions, or answers something else.
///
/// - does: returns an error at once that says what to do
#[tokio::test]
async fn a_server_without_sessions_is_told_at_once() {
    let bed = Bed::new().await;
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    for error in [
        client.session().open().await.map(|_| ()).unwrap_err(),
        client.reserve().await.map(|_| ()).unwrap_err(),
    ] {
        assert!(
            matches!(error, SessionError::NoSessions { .. }),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(text.contains(&sessions(&bed)), "{text}");
        assert!(text.contains("consume_in_sessions"), "{text}");
    }
    bed.declare_foreign(&sessions(&bed), FieldTable::default())
        .await;
    let silent = client.to(bed.name());
    let _deaf = Responder::start(&bed, &sessions(&bed), async |asked: Asked| {
        vec![match asked.kind().as_str() {
            "idem.open" => asked.refused_as("undecodable"),
            _ => asked.answer(&Value::Null),
        }]
    });
    let error = silent.session().open().await.unwrap_err();
    assert!(
        matches!(&error, SessionError::Refused { code, .. } if code == Refusal::UNDECODABLE),
        "{error:?}"
    );
    let error = silent.reserve().await.unwrap_err();
    assert!(
        matches!(&error, SessionError::Reply { body, .. } if body == b"null"),
        "{error:?}"
    );
}

/// A key is reserved.
///
/// - does: uses it for a later call
#[tokio::test]
async fn a_key_is_reserved_and_used_for_a_call() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 5, LIFE).await;
    let responder = Responder::granting(&bed);
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let key = client.reserve().await.unwrap();
    assert_eq!(key, "key-0");
    let call = client.call(&CreateLease::of("printer")).key(&key);
    call.await.unwrap();
    assert_eq!(responder.asked.entries()[0].message_id(), key);
}

/// Nothing is called for a while.
///
/// - does: gives signs of life, until the last clone is gone
#[tokio::test]
async fn a_session_gives_signs_of_life_until_its_last_clone_is_gone() {
    let bed = Bed::new().await;
    // Long enough for each to be answered before it is repeated.
    let registrar = Registrar::start(&bed, 5, Duration::from_secs(9)).await;
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let begun = tokio::time::Instant::now();
    let session = client.session().open().await.unwrap();
    let clone = session.clone();
    drop((client, session));
    let three = |asked: &[Asked]| {
        let beats = asked
            .iter()
            .filter(|asked| asked.kind() == "idem.heartbeat");
        beats.count() >= 3
    };
    registrar.asked.until("three signs of life", three).await;
    assert!(
        begun.elapsed() >= 3 * Duration::from_secs(3),
        "a third each"
    );
    let beat = registrar.of_kind("idem.heartbeat").remove(0);
    let body: Value = serde_json::from_slice(&beat.body).unwrap();
    assert_eq!(body["session"], clone.id());
    let reply_queue = beat.reply_to();
    drop(clone);
    eventually("its connection is gone with it", async || {
        bed.state_of(&reply_queue).await.map_or(Ok(()), Err)
    })
    .await;
}

/// The session is closed.
///
/// - does: says so to the server; takes no more calls
#[tokio::test]
async fn a_session_that_is_closed_takes_no_more_calls() {
    let bed = Bed::new().await;
    let registrar = Registrar::start(&bed, 5, LIFE).await;
    let responder = Responder::granting(&bed);
    let session = session(&bed).await;
    session.call(&CreateLease::of("printer")).await.unwrap();
    assert!(!session.has_ended());
    registrar.lose(1);
    let clone = session.clone();
    let closing = tokio::spawn(async move { clone.close().await });
    registrar.asked.count("it is to be closed", 2).await;
    // That nobody answers is no reason to take calls meanwhile.
    let called = session.call(&CreateLease::of("printer")).await;
    assert!(
        matches!(called, Err(CallError::SessionExpired)),
        "{called:?}"
    );
    closing.abort();
    session.close().await.unwrap();
    let closed = registrar.of_kind("idem.close");
    let body: Value = serde_json::from_slice(&closed[0].body).unwrap();
    assert_eq!(body["session"], session.id());
    assert!(session.has_ended());
    assert_eq!(responder.asked.entries().len(), 1);
}

/// A sign of life is refused: the session has ended.
///
/// - does: takes no more calls; tells those that wait that they did not run
#[tokio::test]
async fn a_session_whose_sign_of_life_is_refused_takes_no_more_calls() {
    let bed = Bed::new().await;
    let registrar = Registrar::start(&bed, 1, Duration::from_millis(600)).await;
    let (responder, gate) = gated(&bed);
    let session = session(&bed).await;
    let in_flight = spawn(session.call(&CreateLease::of("printer")));
    responder.asked.count("one is in flight", 1).await;
    let waiting = spawn(session.call(&CreateLease::of("scanner")));
    registrar.end_all();
    let waiting = within("the one that waits is told", waiting).await.unwrap();
    assert!(
        matches!(waiting, Err(CallError::SessionExpired)),
        "{waiting:?}"
    );
    assert!(session.has_ended());
    let later = session.call(&CreateLease::of("scanner")).await;
    let later = later.unwrap_err();
    assert_eq!(
        later.to_string(),
        "the session has ended, the request was not handled: open a new session"
    );
    gate.add_permits(1);
    let answered = within("the one in flight is answered", in_flight).await;
    answered.unwrap().unwrap();
    assert_eq!(responder.asked.entries().len(), 1, "no other was sent");
}

/// A request is refused at its first sending because the session has ended.
///
/// - does: says that it did not run; sends nothing more
#[tokio::test]
async fn a_request_whose_session_has_ended_before_it_was_sent_is_told_not_to_have_run() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 5, LIFE).await;
    let responder = refusing(&bed, Refusal::SESSION_EXPIRED, 0);
    let session = session(&bed).await;
    for _ in 0..2 {
        let called = session.call(&CreateLease::of("printer")).await;
        assert!(
            matches!(called, Err(CallError::SessionExpired)),
            "{called:?}"
        );
    }
    assert_eq!(responder.asked.entries().len(), 1, "the second is not sent");
    assert_eq!(session.unanswered(), []);
}

/// A request that was sent before is refused because the session has ended.
///
/// - does: says that it may have run; it is never sent again by itself
#[tokio::test]
async fn a_request_that_was_sent_before_its_session_ended_is_unknown_and_sent_no_more() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 5, LIFE).await;
    let responder = refusing(&bed, Refusal::SESSION_EXPIRED, 1);
    let session = session(&bed).await;
    let call = session.call(&CreateLease::of("printer")).timeout(SOON);
    let CallError::Unknown { key, again, last } = call.await.unwrap_err() else {
        panic!("it may have been handled")
    };
    assert_eq!((key, again), (format!("{}/0", session.id()), Again::Never));
    assert!(last.to_string().contains("the session has ended"), "{last}");
    let asked = responder.asked.entries().len();
    // It is told, and not sent by itself, neither here nor in another session.
    assert_eq!(session.unanswered()[0].number, number(&session, 0));
    let resumed = resume(&session, 0).await;
    assert!(
        matches!(
            resumed,
            Err(CallError::Unknown {
                again: Again::Never,
                ..
            })
        ),
        "{resumed:?}"
    );
    assert_eq!(responder.asked.entries().len(), asked);
}

/// Shares the promise of
/// `client_sessions::a_request_that_was_sent_before_its_session_ended_is_unknown_and_sent_no_more`.
#[tokio::test]
async fn a_request_that_is_not_answered_before_its_session_has_ended_is_unknown_for_good() {
    let bed = Bed::new().await;
    let registrar = Registrar::start(&bed, 5, Duration::from_millis(600)).await;
    let deaf = Responder::start(&bed, bed.name(), async |_| Vec::new());
    let session = session(&bed).await;
    let call = session.call(&CreateLease::of("printer"));
    let call = spawn(call.deadline(Duration::from_secs(8)));
    deaf.asked.count("it is asked", 1).await;
    registrar.end_all();
    let unknown = within("its deadline passes", call).await.unwrap();
    assert!(session.has_ended(), "a sign of life was refused");
    assert!(
        matches!(
            unknown,
            Err(CallError::Unknown {
                again: Again::Never,
                ..
            })
        ),
        "{unknown:?}"
    );
}

/// A request is answered as stale.
///
/// - does: says that it may have run
#[tokio::test]
async fn a_stale_request_is_unknown() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 5, LIFE).await;
    let _responder = refusing(&bed, Refusal::STALE, 0);
    let session = session(&bed).await;
    let called = session.call(&CreateLease::of("printer")).await;
    assert!(
        matches!(
            called,
            Err(CallError::Unknown {
                again: Again::Never,
                ..
            })
        ),
        "{called:?}"
    );
    assert!(!session.has_ended());
}

/// A request is refused as beyond the window.
///
/// - does: says so; the session goes on
#[tokio::test]
async fn a_request_beyond_the_servers_window_has_failed_and_the_session_goes_on() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 5, LIFE).await;
    let responder = Responder::start(&bed, bed.name(), async |asked: Asked| {
        vec![match asked.number {
            0 => asked.refused_as(Refusal::BEYOND_WINDOW),
            _ => asked.granted(),
        }]
    });
    let session = session(&bed).await;
    let failed = session.call(&CreateLease::of("printer")).await.unwrap_err();
    assert!(
        matches!(&failed, CallError::Failed { code, .. } if code == Refusal::BEYOND_WINDOW),
        "{failed:?}"
    );
    session.call(&CreateLease::of("printer")).await.unwrap();
    assert_eq!(places(&responder), [(0, 0), (1, 1)]);
}

/// The deadline of a session's call passes.
///
/// - does: says that it may have run; its number can be asked again, unchanged
#[tokio::test]
async fn a_request_beyond_its_deadline_is_unknown_and_is_asked_again_by_its_number() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 5, LIFE).await;
    let (responder, gate) = gated(&bed);
    let session = session(&bed).await;
    let call = session.call(&CreateLease::of("printer")).deadline(SOON);
    let unknown = call.header("tenant", "a").await.unwrap_err();
    let advice = format!("for number 0 of the session `{}`", session.id());
    assert!(unknown.to_string().contains(&advice), "{unknown}");
    let CallError::Unknown { again, .. } = unknown else {
        panic!("{unknown:?}")
    };
    assert_eq!(again, Again::Number(number(&session, 0)));
    let unanswered = session.unanswered();
    assert_eq!(unanswered[0].body, r#"{"name":"printer"}"#);
    gate.add_permits(100);
    // While its answer is awaited, the server must not forget it.
    session.call(&CreateLease::of("scanner")).await.unwrap();
    let replied = resume(&session, 0).await.unwrap();
    assert_eq!(replied.reply.name, "printer");
    assert_eq!(places(&responder), [(0, 0), (1, 0), (0, 0)]);
    let asked = responder.asked.entries();
    let (first, again) = (&asked[0], &asked[2]);
    assert_eq!(first.body, again.body);
    assert_eq!(first.message_id(), again.message_id());
    assert_eq!(first.properties.headers(), again.properties.headers());
    assert_eq!(session.unanswered(), []);
    // It was handled, or may have been: whoever asks must not be told otherwise.
    let resumed = resume(&session, 0).await.unwrap_err();
    let CallError::Unknown { again, last, .. } = resumed else {
        panic!("{resumed:?}")
    };
    assert_eq!(again, Again::Never);
    assert!(last.to_string().contains("number 0 was answered"), "{last}");
    let resumed = resume(&session, 1000).await;
    assert!(matches!(resumed, Err(CallError::Request(_))), "{resumed:?}");
    session.call(&CreateLease::of("scanner")).await.unwrap();
    assert_eq!(places(&responder)[3], (2, 2));
}

/// A number is to be asked again in another session.
///
/// - does: does not send it
#[tokio::test]
async fn a_request_is_not_asked_again_in_another_session_that_has_one_of_the_same_number() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 5, LIFE).await;
    let deaf = Responder::start(&bed, bed.name(), async |_| Vec::new());
    let (own, other) = (session(&bed).await, session(&bed).await);
    let mut unknown = Vec::new();
    for session in [&own, &other] {
        let call = session.call(&CreateLease::of("printer")).deadline(SOON);
        match call.await {
            Err(CallError::Unknown { again, .. }) => unknown.push(again),
            other => panic!("{other:?}"),
        }
    }
    // Their clients awaited an answer for a moment only.
    deaf.asked.count("both requests", 2).await;
    let Again::Number(number) = &unknown[0] else {
        panic!("{unknown:?}")
    };
    assert_eq!(*number, own.unanswered()[0].number);
    let refused = other.resume::<CreateLease>(number).deadline(SOON);
    let refused = refused.await.unwrap_err();
    let told = refused.to_string();
    assert!(told.contains("was not sent there"), "{told}");
    let CallError::OtherSession { request, session } = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((&request, &*session), (number, other.id()));
    assert_eq!(deaf.asked.entries().len(), 2, "nothing more is sent");
    assert!(!other.give_up(number));
    assert_eq!(other.unanswered().len(), 1);
    assert!(own.give_up(number));
}

/// A session's call is dropped.
///
/// - does: keeps its number to be asked again, until a later call needs its slot
#[tokio::test]
async fn a_call_that_is_dropped_is_unanswered_and_given_up_when_its_place_is_needed() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 2, LIFE).await;
    let deaf = Responder::start(&bed, bed.name(), async |asked: Asked| {
        match asked.lease().name.as_str() {
            "printer" => Vec::new(),
            _ => vec![asked.granted()],
        }
    });
    let session = session(&bed).await;
    drop(session.call(&CreateLease::of("never awaited")));
    let call = spawn(session.call(&CreateLease::of("printer")));
    deaf.asked.count("it is sent", 1).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!(session.unanswered()[0].number, number(&session, 0));
    for _ in 0..2 {
        let call = session.call(&CreateLease::of("scanner")).deadline(LIMIT);
        call.await.unwrap();
    }
    assert_eq!(
        places(&deaf),
        [(0, 0), (1, 0), (2, 2)],
        "0 is given up for 2"
    );
    assert_eq!(session.unanswered(), []);
    assert!(!session.give_up(&number(&session, 0)));
}

/// A session's request cannot be sent.
///
/// - does: uses no number for it
#[tokio::test]
async fn a_request_that_cannot_be_sent_uses_no_number() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 5, LIFE).await;
    let responder = Responder::granting(&bed);
    let session = session(&bed).await;
    let call = session.call(&CreateLease::of("printer"));
    let refused = call.header("idem-number", "7").await;
    assert!(matches!(refused, Err(CallError::Request(_))), "{refused:?}");
    session.call(&CreateLease::of("printer")).await.unwrap();
    assert_eq!(places(&responder), [(0, 0)]);
}

/// The link of a session's client is cut.
///
/// - does: goes on with the session by another link; each request keeps its number
#[tokio::test]
async fn a_session_goes_on_by_another_link_and_each_request_keeps_its_number() {
    let bed = Bed::new().await;
    let registrar = Registrar::start(&bed, 5, Duration::from_secs(3)).await;
    let proxy = Proxy::open(bed.broker().port()).await;
    let (responder, gate) = gated(&bed);
    let client = patient(&bed).connect(bed.url_by(proxy.port(), ""));
    let session = client.await.unwrap().session().open().await.unwrap();
    let calls: Vec<_> = (0..3)
        .map(|_| spawn(session.call(&CreateLease::of("printer"))))
        .collect();
    responder.asked.count("all are asked", 3).await;
    proxy.cut();
    responder.asked.count("all are asked again", 6).await;
    let mut numbers = places(&responder).split_off(3);
    numbers.sort_unstable();
    assert_eq!(numbers, [(0, 0), (1, 0), (2, 0)]);
    gate.add_permits(100);
    for call in within("all are answered", join_all(calls)).await {
        call.unwrap().unwrap();
    }
    let opened = registrar.of_kind("idem.open").remove(0).reply_to();
    let by_another = |asked: &[Asked]| {
        let mut beats = asked
            .iter()
            .filter(|asked| asked.kind() == "idem.heartbeat");
        beats.any(|beat| beat.reply_to() != opened)
    };
    registrar
        .asked
        .until("signs of life by the new link", by_another)
        .await;
    assert!(!session.has_ended());
}
