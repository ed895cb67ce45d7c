//! A client's session and a worker: what one asks again, the other does not do again.

use std::{process::Stdio, time::Duration};

use futures_util::future::join_all;
use idem_amqp::{
    Client, MemoryStore, Worker,
    client::{Again, CallError},
    executor::ExecutionKind as Kind,
    session::{FileSessionStorage, Session, SessionError, Sessions},
};
use idem_tests::{
    bed::Bed,
    journal::{LIMIT, eventually, within},
    leases::CreateLease,
    proxy::Proxy,
    running::Running,
    session::control,
};
use tokio::{process::Command, time::sleep};

use crate::{
    client_workers::{Desk, grant, patient},
    sessions::bed,
};

/// A life that passes within a test. Signs of life come every third of it, and a busy machine may delay one for
/// seconds.
const SHORT: Duration = Duration::from_secs(12);
/// Longer than that life, also if its last sign comes seconds late.
const LONGER: Duration = Duration::from_secs(18);

/// A worker that grants leases in sessions.
pub(crate) async fn serve(
    desk: &Desk,
    bed: &Bed,
    store: &MemoryStore,
    sessions: Sessions,
) -> Running {
    let worker = Worker::builder(store.clone()).state(desk.clone());
    let worker = worker.consume_in_sessions::<grant>(bed.queue().prefetch(8), sessions);
    let worker = bed.start(worker);
    bed.until_consumed(&control(bed.name()), 1).await;
    worker
}

async fn open(client: &Client) -> Session {
    client.session().open().await.unwrap()
}

/// A session's requests are asked several times while their handlers run.
///
/// - does: has each handled once, and answered
#[tokio::test]
async fn requests_of_a_session_are_handled_once_however_often_they_are_asked() {
    let bed = bed().await;
    let desk = Desk::shut();
    let sessions = Sessions::default().window(3);
    let worker = serve(&desk, &bed, &MemoryStore::new(), sessions).await;
    let client = patient(&bed).timeout(Duration::from_millis(200));
    let client = client.connect(bed.url()).await.unwrap();
    let session = open(&client).await;
    assert_eq!(session.window(), 3);
    let calls: Vec<_> = (0..30)
        .map(|number| {
            let call = session.call(&CreateLease::of(&number.to_string()));
            tokio::spawn(call.into_future())
        })
        .collect();
    eventually("they are asked several times", async || {
        match client.counts() {
            counts if counts.tries > 10 => Ok(()),
            counts => Err(counts),
        }
    })
    .await;
    assert!(desk.asked.entries().len() <= 3, "the window's width");
    desk.gate.add_permits(1000);
    let answers = within("all are answered", join_all(calls)).await;
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap().unwrap().reply.name, number.to_string());
    }
    let mut handled = desk.asked.entries();
    handled.sort_unstable();
    handled.dedup();
    assert_eq!((handled.len(), desk.asked.entries().len()), (30, 30));
    // Copies that wait on the ladder.
    bed.until_settled().await;
    session.close().await.unwrap();
    // Closing is asked several times, too.
    bed.until_settled().await;
    let balance = worker.stop().await;
    let sessions = balance.sessions();
    assert_eq!(sessions.closed, 1, "{sessions}");
    bed.assert_nothing_stuck().await;
}

/// Two clients use the same numbers, in sessions of their own, and one calls without a session.
///
/// - does: brings to none another's reply
#[tokio::test]
async fn two_sessions_with_the_same_numbers_are_strangers() {
    let bed = bed().await;
    let desk = Desk::open();
    let store = MemoryStore::new();
    let worker = serve(&desk, &bed, &store, Sessions::default()).await;
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let (one, other) = (open(&client).await, open(&client).await);
    assert_ne!(one.id(), other.id());
    for (session, name) in [(&one, "printer"), (&other, "scanner"), (&one, "plotter")] {
        let replied = session.call(&CreateLease::of(name)).await.unwrap();
        assert_eq!(
            (replied.reply.name.as_str(), replied.replayed),
            (name, false)
        );
    }
    // Without a session, on the same queue.
    let key = client.reserve().await.unwrap();
    for replayed in [false, true] {
        let call = client.call(&CreateLease::of("tablet")).key(&key);
        assert_eq!(call.await.unwrap().replayed, replayed);
    }
    assert_eq!(
        desk.asked.entries(),
        ["printer", "scanner", "plotter", "tablet"]
    );
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// The worker ends, and another one begins.
///
/// - does: goes on with the session
#[tokio::test]
async fn a_session_outlives_its_worker() {
    let bed = bed().await;
    let (desk, store) = (Desk::open(), MemoryStore::new());
    let worker = serve(&desk, &bed, &store, Sessions::default()).await;
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let session = open(&client).await;
    session.call(&CreateLease::of("printer")).await.unwrap();
    worker.stop().await;
    let call = session.call(&CreateLease::of("scanner"));
    let call = tokio::spawn(call.into_future());
    bed.until_waiting(1).await;
    let worker = serve(&desk, &bed, &store, Sessions::default()).await;
    within("the next worker answers", call)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(desk.asked.entries(), ["printer", "scanner"]);
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// The backlog in front of a request lasts longer than the session lives.
///
/// - does: keeps the session by signs of life, which overtake the backlog; the request is handled
#[tokio::test]
async fn a_backlog_that_is_longer_than_the_sessions_life_ends_no_session() {
    let bed = bed().await;
    let desk = Desk::shut();
    let store = MemoryStore::new();
    let worker = Worker::builder(store).state(desk.clone());
    let sessions = Sessions::default().life(SHORT);
    let worker = bed.start(worker.consume_in_sessions::<grant>(bed.queue().prefetch(1), sessions));
    bed.until_consumed(&control(bed.name()), 1).await;
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let (busy, session) = (open(&client).await, open(&client).await);
    let first = tokio::spawn(busy.call(&CreateLease::of("slow")).into_future());
    desk.asked.count("the worker is busy", 1).await;
    let call = tokio::spawn(session.call(&CreateLease::of("printer")).into_future());
    // Nothing but the signs of life speaks for the second one.
    sleep(LONGER).await;
    assert_eq!(desk.asked.entries(), ["slow"]);
    assert!(!session.has_ended());
    desk.gate.add_permits(1000);
    for call in [first, call] {
        within("it is answered", call).await.unwrap().unwrap();
    }
    drop((busy, session));
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// The session expires while a request is being tried again.
///
/// - does: says that it may have been handled; it is not handled twice
#[tokio::test]
async fn a_request_whose_session_expires_during_a_retry_is_unknown_and_not_handled_twice() {
    let bed = bed().await;
    let desk = Desk::shut();
    let sessions = Sessions::default().life(SHORT);
    let worker = serve(&desk, &bed, &MemoryStore::new(), sessions).await;
    let mut proxy = Proxy::open(bed.broker().port()).await;
    let client = patient(&bed).connect(bed.url_by(proxy.port(), ""));
    let client = client.await.unwrap();
    let session = open(&client).await;
    let call = session.call(&CreateLease::of("printer"));
    let call = tokio::spawn(call.into_future());
    desk.asked.count("the handler runs", 1).await;
    proxy.close().await;
    proxy.cut();
    // The client can give no sign of life, for longer than its session lives.
    sleep(LONGER).await;
    desk.gate.add_permits(1000);
    worker.ended(Kind::Executed, 1).await;
    proxy.listen().await;
    let unknown = within("it is told", call).await.unwrap().unwrap_err();
    assert!(
        matches!(
            unknown,
            CallError::Unknown {
                again: Again::Never,
                ..
            }
        ),
        "{unknown:?}"
    );
    let later = session.call(&CreateLease::of("scanner")).await;
    assert!(matches!(later, Err(CallError::SessionExpired)), "{later:?}");
    let session = open(&client).await;
    session.call(&CreateLease::of("scanner")).await.unwrap();
    assert_eq!(desk.asked.entries(), ["printer", "scanner"]);
    drop(session);
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// No worker is there to take signs of life.
///
/// - does: lets the broker drop each when its time is over
#[tokio::test]
async fn signs_of_life_do_not_pile_up_while_no_worker_is_there() {
    let bed = bed().await;
    let desk = Desk::open();
    let sessions = Sessions::default().life(SHORT);
    let worker = serve(&desk, &bed, &MemoryStore::new(), sessions).await;
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let session = open(&client).await;
    worker.stop().await;
    let begun = client.counts().tries;
    eventually("several signs of life", async || {
        match client.counts().tries - begun {
            tries if tries >= 4 => Ok(()),
            tries => Err(tries),
        }
    })
    .await;
    eventually("no more than two are there", async || {
        match bed.waiting(&control(bed.name())).await {
            Some((0..=2, 0)) => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
    drop(session);
    bed.assert_nothing_stuck().await;
}

/// The client is killed with a request in flight, and starts again with its file.
///
/// - does: gets its reply; the request is handled once
#[tokio::test]
async fn a_client_that_is_killed_goes_on_with_its_session_and_nothing_is_handled_twice() {
    let bed = bed().await;
    let desk = Desk::with(3);
    let worker = serve(&desk, &bed, &MemoryStore::new(), Sessions::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leases.session");
    let mut killed = Command::new(env!("CARGO_BIN_EXE_session-client"))
        .args([bed.url(), bed.name()])
        .arg(&file)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let handled = desk.asked.count("three are answered, one is handled", 4);
    handled.await;
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    assert!(
        FileSessionStorage::open(&file).await.is_err(),
        "it has the file"
    );
    killed.kill().await.unwrap();
    desk.gate.add_permits(1000);
    worker.ended(Kind::Executed, 4).await;

    let storage = FileSessionStorage::open(&file).await.unwrap();
    let session = client.session().resume_from(storage.clone()).await.unwrap();
    let unanswered = session.unanswered();
    let numbers: Vec<_> = unanswered
        .iter()
        .map(|request| request.number.number)
        .collect();
    assert_eq!(numbers, [3], "the answers before it were handed over");
    let replied = session
        .resume::<CreateLease>(&unanswered[0].number)
        .await
        .unwrap();
    assert_eq!((&*replied.reply.name, replied.replayed), ("lease-3", true));
    session.call(&CreateLease::of("next")).await.unwrap();
    let expected = ["lease-0", "lease-1", "lease-2", "lease-3", "next"];
    assert_eq!(desk.asked.entries(), expected);

    session.close().await.unwrap();
    // Nothing is left that could be resumed.
    let another = client.session().resume_from(storage).await.unwrap();
    assert_ne!(another.id(), session.id());
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// A client comes back when its session has ended.
///
/// - does: says which requests may have been handled; sends none
#[tokio::test]
async fn a_client_that_comes_back_too_late_is_told_what_may_have_been_handled() {
    let bed = bed().await;
    let desk = Desk::shut();
    let sessions = Sessions::default().life(SHORT);
    let worker = serve(&desk, &bed, &MemoryStore::new(), sessions).await;
    let folder = tempfile::tempdir().unwrap();
    let storage = FileSessionStorage::open(folder.path().join("leases.session"));
    let storage = storage.await.unwrap();
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let session = client.session().resume_from(storage.clone()).await.unwrap();
    let call = session.call(&CreateLease::of("printer"));
    let call = tokio::spawn(call.into_future());
    desk.asked.count("the handler runs", 1).await;
    call.abort();
    drop((call, session));
    sleep(LONGER).await;
    desk.gate.add_permits(1000);
    worker.ended(Kind::Executed, 1).await;
    match client.session().resume_from(storage).await {
        Err(SessionError::Expired { unanswered, .. }) => {
            assert_eq!(unanswered[0].body, r#"{"name":"printer"}"#);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(desk.asked.entries().len(), 1);
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// The worker consumes a session's queue without sessions.
///
/// - does: returns an error at once that says what to do
#[tokio::test]
async fn a_session_at_a_queue_without_sessions_says_what_to_do() {
    let bed = Bed::new().await;
    let worker = Desk::open().start(&bed);
    let client = patient(&bed).deadline(LIMIT).connect(bed.url());
    let error = client.await.unwrap().session().open().await.unwrap_err();
    assert!(
        matches!(error, SessionError::NoSessions { .. }),
        "{error:?}"
    );
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}
