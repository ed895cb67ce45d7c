//! What a client that keeps its session promises when its process ends in the middle of it.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::future::join_all;
use idem_amqp::{
    Client,
    client::CallError,
    session::{
        FileSessionStorage, RequestNumber, Session, SessionCall, SessionError, SessionStorage,
        SessionStorageError, SqliteSessionStorage, StorageLocation, StoredSession,
    },
};
use idem_tests::{
    bed::Bed,
    journal::{Journal, LIMIT, within},
    leases::CreateLease,
    registrar::Registrar,
    responder::{Asked, Responder},
};
use tokio::{sync::Semaphore, task::JoinHandle};

const LIFE: Duration = Duration::from_mins(10);
const NONE: [u64; 0] = [];

async fn client(bed: &Bed) -> Client {
    let client = Client::builder().queue(bed.name());
    let client = client.timeout(5 * LIMIT).deadline(5 * LIMIT);
    client.connect(bed.url()).await.unwrap()
}

/// A client of a new process: nothing is left of an earlier one but what it has kept.
async fn resumed(bed: &Bed, path: &Path) -> Session {
    let storage = FileSessionStorage::open(path).await.unwrap();
    let resumed = client(bed).await.session().resume_from(storage);
    resumed.await.unwrap()
}

/// Ends a call, and its session, as the end of its process does.
async fn end<T>(call: JoinHandle<T>) {
    call.abort();
    let _ = call.await;
}

fn spawn(call: SessionCall<CreateLease>) -> JoinHandle<()> {
    let call = call.into_future();
    tokio::spawn(async move {
        let _ = call.await;
    })
}

fn silent(bed: &Bed) -> Responder {
    Responder::start(bed, bed.name(), async |_| Vec::new())
}

fn numbers(session: &Session) -> Vec<u64> {
    let unanswered = session.unanswered();
    unanswered
        .iter()
        .map(|request| request.number.number)
        .collect()
}

fn resume(session: &Session, number: u64) -> SessionCall<CreateLease> {
    session.resume(&RequestNumber {
        session: session.id().to_owned(),
        number,
    })
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.session");
    (folder, path)
}

/// The process ends while requests are in flight, and the session is stored.
///
/// - does: has them in the next process, and asks them again, unchanged, when it is told to
#[tokio::test]
async fn a_session_in_a_file_goes_on_after_its_process_has_ended() {
    let bed = Bed::new().await;
    let (_folder, path) = folder();
    let open = async || FileSessionStorage::open(&path).await.unwrap();
    goes_on(&bed, open).await;
}

/// Shares the promise of `client_keepers::a_session_in_a_file_goes_on_after_its_process_has_ended`.
#[tokio::test]
async fn a_session_in_a_sqlite_database_goes_on_after_its_process_has_ended() {
    let bed = Bed::new().await;
    let (folder, _) = folder();
    let path = folder.path().join("client.db");
    let open = async || SqliteSessionStorage::open(&path, "leases").await.unwrap();
    goes_on(&bed, open).await;
}

async fn goes_on<K: SessionStorage>(bed: &Bed, open: impl AsyncFn() -> K) {
    let registrar = Registrar::start(bed, 5, LIFE).await;
    let deaf = silent(bed);
    let client = client(bed).await;
    let session = client.session().resume_from(open().await).await.unwrap();
    let id = session.id().to_owned();
    let calls = ["printer", "scanner"].map(|name| {
        let call = session.call(&CreateLease::of(name));
        spawn(call.header("tenant", name))
    });
    drop(session);
    let asked = deaf.asked.count("both are asked", 2).await;
    for call in calls {
        end(call).await;
    }
    drop(deaf);

    let responder = Responder::start(bed, bed.name(), async |asked: Asked| {
        vec![asked.granted().replayed(true)]
    });
    let session = client.session().resume_from(open().await).await.unwrap();
    assert_eq!(session.id(), id);
    assert_eq!(registrar.of_kind("idem.open").len(), 1);
    assert_eq!(numbers(&session), [0, 1]);
    assert_eq!(responder.asked.entries().len(), 0, "nothing by itself");
    for request in session.unanswered() {
        let replied = session
            .resume::<CreateLease>(&request.number)
            .await
            .unwrap();
        assert!(replied.replayed);
    }
    let again = responder.asked.entries();
    for first in &asked {
        let same = |again: &&Asked| again.message_id() == first.message_id();
        let again = again.iter().find(same).unwrap();
        assert_eq!(again.body, first.body);
        let tenant = |asked: &Asked| {
            let headers = asked.properties.headers().clone().unwrap();
            headers.inner().get("tenant").cloned()
        };
        assert!(tenant(first).is_some());
        assert_eq!(tenant(again), tenant(first));
    }
    session.call(&CreateLease::of("plotter")).await.unwrap();
    let (_, number, awaited) = responder.asked.entries()[2].place();
    assert_eq!((number, awaited), (2, 2));
}

/// The process ends with an answer that was handed over.
///
/// - does: asks its request again, unless another request was sent since, or the session was saved
#[tokio::test]
async fn an_answer_that_was_handed_over_is_brought_again_until_the_next_request_or_save() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 5, LIFE).await;
    let responder = Responder::granting(&bed);
    let (_folder, path) = folder();
    let session = resumed(&bed, &path).await;
    session.call(&CreateLease::of("printer")).await.unwrap();
    assert_eq!(numbers(&session), NONE, "this process has the answer");
    drop(session);
    let session = resumed(&bed, &path).await;
    assert_eq!(numbers(&session), [0], "the next may have to use it");
    resume(&session, 0).await.unwrap();
    session.call(&CreateLease::of("scanner")).await.unwrap();
    drop(session);
    let session = resumed(&bed, &path).await;
    assert_eq!(numbers(&session), [1]);
    resume(&session, 1).await.unwrap();
    session.save().await.unwrap();
    drop(session);
    let session = resumed(&bed, &path).await;
    assert_eq!(numbers(&session), NONE);
    session.call(&CreateLease::of("plotter")).await.unwrap();
    // Never has a request told the server to forget what a crash would have asked for again.
    let places = responder.asked.entries().into_iter().map(|asked| {
        let (_, number, awaited) = asked.place();
        (number, awaited)
    });
    let places: Vec<_> = places.collect();
    assert_eq!(places, [(0, 0), (0, 0), (1, 1), (1, 1), (2, 2)]);
}

/// The stored session has ended.
///
/// - does: returns an error that names its unanswered requests; sends none of them
#[tokio::test]
async fn a_session_that_has_ended_meanwhile_is_told_with_its_unanswered_requests() {
    let bed = Bed::new().await;
    let registrar = Registrar::start(&bed, 5, LIFE).await;
    let deaf = silent(&bed);
    let (_folder, path) = folder();
    let session = resumed(&bed, &path).await;
    let id = session.id().to_owned();
    let call = spawn(session.call(&CreateLease::of("printer")));
    drop(session);
    deaf.asked.count("it is asked", 1).await;
    end(call).await;
    registrar.end_all();
    let client = client(&bed).await;
    let storage = FileSessionStorage::open(&path).await.unwrap();
    for _ in 0..2 {
        match client.session().resume_from(storage.clone()).await {
            Err(SessionError::Expired {
                id: ended,
                unanswered,
            }) => {
                assert_eq!(ended, id);
                assert_eq!(unanswered[0].body, r#"{"name":"printer"}"#);
            }
            other => panic!("{other:?}"),
        }
    }
    let asked = deaf.asked.count("the first request", 1).await;
    assert_eq!(asked.len(), 1, "it is not sent by itself");
    let session = client.session().keep_in(storage).open().await.unwrap();
    assert_ne!(session.id(), id);
    assert_eq!(numbers(&session), NONE);
}

/// The stored session was closed.
///
/// - does: opens another one
#[tokio::test]
async fn a_session_that_was_closed_is_not_resumed_but_another_one_opened() {
    let bed = Bed::new().await;
    let registrar = Registrar::start(&bed, 5, LIFE).await;
    let _responder = Responder::granting(&bed);
    let (_folder, path) = folder();
    let session = resumed(&bed, &path).await;
    session.call(&CreateLease::of("printer")).await.unwrap();
    session.close().await.unwrap();
    let id = session.id().to_owned();
    drop(session);
    let session = resumed(&bed, &path).await;
    assert_ne!(session.id(), id);
    assert_eq!(numbers(&session), NONE);
    assert_eq!(registrar.of_kind("idem.open").len(), 2);
}

/// The stored session is that of another queue.
///
/// - does: returns an error that says so
#[tokio::test]
async fn a_session_of_another_queue_is_not_resumed() {
    let bed = Bed::new().await;
    let registrar = Registrar::start(&bed, 5, LIFE).await;
    let (_folder, path) = folder();
    drop(resumed(&bed, &path).await);
    let asked = registrar.asked.entries().len();
    let storage = FileSessionStorage::open(&path).await.unwrap();
    let other = client(&bed).await.to("others");
    match other.session().resume_from(storage).await {
        Err(SessionError::OtherQueue { kept, queue }) => {
            assert_eq!((&*kept, &*queue), (bed.name(), "others"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(registrar.asked.entries().len(), asked);
}

/// Two processes store their session in one place.
///
/// - does: a file: the second process cannot open it; a row: the first process can send nothing more
#[tokio::test]
async fn a_file_that_another_process_has_is_not_shared() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 5, LIFE).await;
    let (_folder, path) = folder();
    let _session = resumed(&bed, &path).await;
    let error = FileSessionStorage::open(&path).await.unwrap_err();
    assert!(
        matches!(error, SessionStorageError::InUse { .. }),
        "{error:?}"
    );
}

/// Shares the promise of `client_keepers::a_file_that_another_process_has_is_not_shared`.
#[tokio::test]
async fn a_row_that_another_process_has_taken_stops_the_first_one_before_it_sends() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 5, LIFE).await;
    let responder = Responder::granting(&bed);
    let (folder, _) = folder();
    let path = folder.path().join("client.db");
    let open = async || SqliteSessionStorage::open(&path, "leases").await.unwrap();
    let client = client(&bed).await;
    let first = client.session().resume_from(open().await).await.unwrap();
    let second = client.session().resume_from(open().await).await.unwrap();
    assert_eq!(first.id(), second.id());
    let called = first.call(&CreateLease::of("printer")).await;
    assert!(matches!(called, Err(CallError::Unsaved(_))), "{called:?}");
    assert_eq!(responder.asked.entries().len(), 0);
    second.call(&CreateLease::of("scanner")).await.unwrap();
    assert_eq!(responder.asked.entries().len(), 1);
}

/// Keeps nothing, and says so as slowly as the test wants.
#[derive(Debug)]
struct Slow {
    place: StorageLocation,
    saves: Journal<StoredSession>,
    gate: Semaphore,
    broken: AtomicBool,
}

impl Slow {
    fn with(permits: usize) -> Arc<Self> {
        Arc::new(Self {
            place: StorageLocation::new("the test"),
            saves: Journal::default(),
            gate: Semaphore::new(permits),
            broken: false.into(),
        })
    }
}

impl SessionStorage for Slow {
    fn place(&self) -> &StorageLocation {
        &self.place
    }

    async fn load(&self) -> Result<Option<StoredSession>, SessionStorageError> {
        Ok(None)
    }

    async fn save(&self, session: &StoredSession) -> Result<(), SessionStorageError> {
        self.saves.write(session.clone());
        self.gate.acquire().await.unwrap().forget();
        if self.broken.load(SeqCst) {
            return Err(SessionStorageError::failed("the test", "no space"));
        }
        Ok(())
    }

    async fn remove(&self) -> Result<(), SessionStorageError> {
        Ok(())
    }
}

/// Many calls are to be saved.
///
/// - does: sends none before it is saved; those that wait share a save
#[tokio::test]
async fn a_request_is_saved_before_it_is_sent_and_those_that_wait_share_a_save() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 100, LIFE).await;
    let responder = Responder::granting(&bed);
    let storage = Slow::with(1);
    let client = client(&bed).await;
    let session = client.session().resume_from(Arc::clone(&storage));
    let session = session.await.unwrap();
    let first = tokio::spawn(session.call(&CreateLease::of("printer")).into_future());
    storage.saves.count("it is being saved", 2).await;
    let others: Vec<_> = (0..50)
        .map(|_| tokio::spawn(session.call(&CreateLease::of("scanner")).into_future()))
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(responder.asked.entries().len(), 0, "nothing is saved yet");
    storage.gate.add_permits(100);
    within("it is answered", first).await.unwrap().unwrap();
    for call in within("all are answered", join_all(others)).await {
        call.unwrap().unwrap();
    }
    let saves = storage.saves.entries();
    assert!(saves.len() < 20, "{} saves for 51 requests", saves.len());
    for asked in responder.asked.entries() {
        let number = u64::try_from(asked.place().1).unwrap();
        let mut kept = saves.iter().flat_map(|save| &save.unanswered);
        assert!(kept.any(|kept| kept.number == number), "{number}");
    }
}

/// A session's request cannot be saved.
///
/// - does: does not send it
#[tokio::test]
async fn a_request_that_cannot_be_saved_is_not_sent() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 1, LIFE).await;
    let responder = Responder::granting(&bed);
    let storage = Slow::with(2);
    let client = client(&bed).await;
    let session = client.session().keep_in(Arc::clone(&storage)).open();
    let session = session.await.unwrap();
    storage.broken.store(true, SeqCst);
    let called = session.call(&CreateLease::of("printer")).await;
    assert!(matches!(called, Err(CallError::Unsaved(_))), "{called:?}");
    let slow = session.call(&CreateLease::of("printer"));
    let slow = slow.deadline(Duration::from_millis(300)).await;
    assert!(matches!(slow, Err(CallError::Unsent(_))), "{slow:?}");
    storage.broken.store(false, SeqCst);
    storage.gate.add_permits(100);
    session.call(&CreateLease::of("scanner")).await.unwrap();
    let asked = responder.asked.entries();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].lease().name, "scanner");
    assert_eq!(numbers(&session), NONE);
}
