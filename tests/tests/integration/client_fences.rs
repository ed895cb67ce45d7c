//! What a client promises of the place where it keeps its session: it is one session's at a time.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use idem_amqp::{
    Client,
    client::CallError,
    session::{
        FileSessionStorage, Session, SessionError, SessionStorage, SessionStorageError,
        SqliteSessionStorage, StorageLocation, StoredSession,
    },
};
use idem_tests::{
    bed::Bed,
    journal::{Journal, LIMIT, eventually, within},
    leases::CreateLease,
    registrar::Registrar,
    responder::{Asked, Responder},
};
use tokio::sync::Semaphore;

const LIFE: Duration = Duration::from_mins(10);
const SOON: Duration = Duration::from_millis(300);

async fn client(bed: &Bed) -> Client {
    let client = Client::builder().queue(bed.name());
    let client = client.timeout(5 * LIMIT).deadline(5 * LIMIT);
    client.connect(bed.url()).await.unwrap()
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.session");
    (folder, path)
}

/// A storage that a user may have written: it writes whatever it is told, whoever says so.
#[derive(Debug, Clone)]
struct Board {
    place: StorageLocation,
    kept: Arc<Mutex<Option<StoredSession>>>,
}

impl Board {
    fn empty() -> Self {
        Self {
            place: StorageLocation::new("the board"),
            kept: Arc::default(),
        }
    }

    /// The same place, as another process has it.
    fn of_another_process(&self) -> Self {
        Self {
            kept: Arc::clone(&self.kept),
            ..Self::empty()
        }
    }

    fn kept(&self) -> Option<StoredSession> {
        self.kept.lock().unwrap().clone()
    }
}

impl SessionStorage for Board {
    fn place(&self) -> &StorageLocation {
        &self.place
    }

    async fn load(&self) -> Result<Option<StoredSession>, SessionStorageError> {
        Ok(self.kept())
    }

    async fn save(&self, session: &StoredSession) -> Result<(), SessionStorageError> {
        *self.kept.lock().unwrap() = Some(session.clone());
        Ok(())
    }

    async fn remove(&self) -> Result<(), SessionStorageError> {
        *self.kept.lock().unwrap() = None;
        Ok(())
    }
}

fn assert_occupied(opened: Result<Session, SessionError>) {
    match opened {
        Err(SessionError::Storage(error)) => {
            let advice = "close it, or drop it";
            assert!(error.to_string().contains(advice), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

/// A second session of the process is to be stored in the same place.
///
/// - does: returns an error until the first was closed or dropped, and what it had begun to save is saved
#[tokio::test]
async fn a_file_keeps_one_session_of_a_process_at_a_time() {
    let (_folder, path) = folder();
    keeps_one(FileSessionStorage::open(&path).await.unwrap()).await;
}

/// Shares the promise of `client_fences::a_file_keeps_one_session_of_a_process_at_a_time`.
#[tokio::test]
async fn a_row_keeps_one_session_of_a_process_at_a_time() {
    let (_folder, path) = folder();
    keeps_one(SqliteSessionStorage::open(&path, "leases").await.unwrap()).await;
}

/// Shares the promise of `client_fences::a_file_keeps_one_session_of_a_process_at_a_time`.
#[tokio::test]
async fn a_users_keeper_keeps_one_session_of_a_process_at_a_time() {
    keeps_one(Board::empty()).await;
}

async fn keeps_one<K: SessionStorage + Clone>(storage: K) {
    let bed = Bed::new().await;
    let registrar = Registrar::start(&bed, 5, LIFE).await;
    let responder = Responder::granting(&bed);
    let client = client(&bed).await;
    let resume = async || client.session().resume_from(storage.clone()).await;
    let first = resume().await.unwrap();
    assert_occupied(resume().await);
    assert_occupied(client.session().keep_in(storage.clone()).open().await);
    assert_eq!(registrar.of_kind("idem.open").len(), 1);
    first.call(&CreateLease::of("printer")).await.unwrap();

    let id = first.id().to_owned();
    drop(first);
    let second = resume().await.unwrap();
    assert_eq!(second.id(), id, "it was dropped, and goes on");
    second.close().await.unwrap();
    let third = resume().await.unwrap();
    assert_ne!(third.id(), id, "it was closed, though not dropped");
    third.call(&CreateLease::of("scanner")).await.unwrap();
    // What was closed has nothing there any more that it could remove or write over.
    second.close().await.unwrap();
    second.save().await.unwrap();
    let kept = storage.load().await.unwrap().unwrap();
    assert_eq!((&*kept.id, kept.next), (third.id(), 1));
    assert_eq!(responder.asked.entries().len(), 2);
}

/// Another process has taken the session over.
///
/// - does: asks for no number again and does not close, whatever the storage would write
#[tokio::test]
async fn a_row_that_another_process_has_taken_stops_the_first_one_before_it_asks_or_closes() {
    let (_folder, path) = folder();
    let open = async || SqliteSessionStorage::open(&path, "leases").await.unwrap();
    stops_the_first(open).await;
}

/// Shares the promise of
/// `client_fences::a_row_that_another_process_has_taken_stops_the_first_one_before_it_asks_or_closes`.
#[tokio::test]
async fn a_place_that_another_process_has_taken_stops_the_first_one_whatever_its_keeper_writes() {
    let board = Board::empty();
    stops_the_first(async || board.of_another_process()).await;
}

async fn stops_the_first<K: SessionStorage>(open: impl AsyncFn() -> K) {
    let bed = Bed::new().await;
    let registrar = Registrar::start(&bed, 5, LIFE).await;
    let responder = Responder::start(&bed, bed.name(), async |asked: Asked| {
        match asked.lease().name.as_str() {
            "printer" => Vec::new(),
            _ => vec![asked.granted()],
        }
    });
    let client = client(&bed).await;
    let first = client.session().resume_from(open().await).await.unwrap();
    // Longer than a busy machine may stall a process: the request is saved and sent before.
    let deadline = Duration::from_secs(8);
    let call = first.call(&CreateLease::of("printer")).deadline(deadline);
    let unknown = call.await.unwrap_err();
    assert!(matches!(unknown, CallError::Unknown { .. }), "{unknown:?}");
    let second = client.session().resume_from(open().await).await.unwrap();
    assert_eq!(first.id(), second.id());
    // The client awaited its answer for a moment only.
    responder.asked.count("the first request", 1).await;

    let called = first.call(&CreateLease::of("scanner")).await;
    assert!(matches!(called, Err(CallError::Unsaved(_))), "{called:?}");
    match first
        .resume::<CreateLease>(&first.unanswered()[0].number)
        .await
    {
        Err(CallError::Unknown { last, .. }) => {
            assert!(last.to_string().contains("another process, or"), "{last}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(responder.asked.entries().len(), 1, "nothing is sent");
    let closed = first.close().await;
    assert!(
        matches!(closed, Err(SessionError::Storage(_))),
        "{closed:?}"
    );
    assert_eq!(registrar.of_kind("idem.close").len(), 0);

    second.call(&CreateLease::of("scanner")).await.unwrap();
    drop(second);
    let third = client.session().resume_from(open().await).await.unwrap();
    assert_eq!(third.id(), first.id(), "what is kept is still there");
    assert_eq!(third.unanswered().len(), 2);
}

/// As slow as the test wants.
#[derive(Debug, Clone)]
struct Slow {
    board: Board,
    saving: Journal<StoredSession>,
    gate: Arc<Semaphore>,
}

impl Slow {
    fn with(permits: usize) -> Self {
        Self {
            board: Board::empty(),
            saving: Journal::default(),
            gate: Arc::new(Semaphore::new(permits)),
        }
    }
}

impl SessionStorage for Slow {
    fn place(&self) -> &StorageLocation {
        self.board.place()
    }

    async fn load(&self) -> Result<Option<StoredSession>, SessionStorageError> {
        self.board.load().await
    }

    async fn save(&self, session: &StoredSession) -> Result<(), SessionStorageError> {
        self.saving.write(session.clone());
        self.gate.acquire().await.unwrap().forget();
        self.board.save(session).await
    }

    async fn remove(&self) -> Result<(), SessionStorageError> {
        self.board.remove().await
    }
}

/// Shares the promise of `client_fences::a_file_keeps_one_session_of_a_process_at_a_time`.
///
/// Its save may still be written: whoever came now would read what is about to be replaced.
#[tokio::test]
async fn a_session_that_was_given_up_while_it_was_saved_leaves_its_place_when_that_has_ended() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 5, LIFE).await;
    let storage = Slow::with(0);
    let client = client(&bed).await;
    let resume = async || client.session().resume_from(storage.clone()).await;
    let first = client.session().resume_from(storage.clone());
    let first = tokio::spawn(first);
    storage.saving.count("it is being saved", 1).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_occupied(within("it is refused", resume()).await);
    storage.gate.add_permits(100);
    let kept = storage.saving.entries()[0].id.clone();
    let second = within("it is resumed", resume()).await.unwrap();
    assert_eq!(second.id(), kept);
}

/// What is kept, once it is what the test waits for.
async fn kept_as(board: &Board, next: u64, unanswered: &[u64]) {
    eventually("it is kept", async || {
        let kept = board.kept().ok_or(None)?;
        let numbers = kept.unanswered.iter().map(|request| request.number);
        if kept.next == next && numbers.eq(unanswered.iter().copied()) {
            return Ok(());
        }
        Err(Some(kept))
    })
    .await;
}

/// A request was saved, and not sent or taken by no queue.
///
/// - does: does not list it as unanswered after a restart
#[tokio::test]
async fn a_request_that_was_not_saved_in_time_is_not_kept_as_one_that_was_sent() {
    let bed = Bed::new().await;
    let _registrar = Registrar::start(&bed, 5, LIFE).await;
    let responder = Responder::granting(&bed);
    let storage = Slow::with(1);
    let client = client(&bed).await;
    let session = client.session().resume_from(storage.clone()).await.unwrap();
    let call = session.call(&CreateLease::of("printer")).deadline(SOON);
    let unsent = call.await.unwrap_err();
    assert!(matches!(unsent, CallError::Unsent(_)), "{unsent:?}");
    // The save that was begun ends, and says that the request may be on its way.
    storage.gate.add_permits(1);
    kept_as(&storage.board, 1, &[0]).await;
    storage.gate.add_permits(100);
    kept_as(&storage.board, 1, &[]).await;
    assert_eq!(responder.asked.entries().len(), 0);
}

/// Shares the promise of `client_fences::a_request_that_was_not_saved_in_time_is_not_kept_as_one_that_was_sent`.
#[tokio::test]
async fn a_request_that_no_queue_took_is_not_kept_when_that_is_told() {
    let bed = Bed::bare().await;
    let _registrar = Registrar::start(&bed, 5, LIFE).await;
    let board = Board::empty();
    let client = client(&bed).await;
    let session = client.session().resume_from(board.clone()).await.unwrap();
    let call = session.call(&CreateLease::of("printer"));
    let unroutable = call.await.unwrap_err();
    assert!(
        matches!(unroutable, CallError::Unroutable { .. }),
        "{unroutable:?}"
    );
    let kept = board.kept().unwrap();
    assert_eq!((kept.next, kept.unanswered), (1, vec![]));
}
