//! Sessions on a PostgreSQL whose standby takes its place: what the standby has received goes on, and what it has not
//! is told.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use idem_amqp::{
    Client, Refused, Worker,
    client::CallError,
    executor::{ExecutionKind as Kind, RunsOn},
    handler::Handler,
    prelude::*,
    session::{Session as ClientSession, Sessions},
    sqlx::PgConnection,
};
use idem_tests::{
    bed::Bed,
    journal::{Journal, eventually, within},
    leases::{CreateLease, Lease, LeaseError},
    ledger::{Charge, Ledger, in_postgres},
    postgres_pair::PostgresPair,
    requester::Requester,
    running::Running,
    session::{Session, control},
};
use serde_json::json;
use tokio::time::sleep;

use crate::{client_workers::patient, sessions::bed};

const REQUESTS: usize = 100;

/// Which requests were handled, each as often as it was.
type Handled = Journal<String>;

fn lease(name: String) -> Lease {
    Lease { name, number: 1 }
}

#[idempotent(key = message_id(), scope = "leases.grant")]
async fn grant_atomically(
    request: CreateLease,
    State(handled): State<Handled>,
    attempt: Attempt,
    db: &mut PgConnection,
) -> Result<Lease, Refused<LeaseError>> {
    let charge = Charge::new(&request.name, attempt.number(), "here");
    in_postgres::write(db, &charge).await?;
    handled.write(request.name.clone());
    Ok(lease(request.name))
}

#[idempotent(key = message_id(), scope = "leases.grant")]
async fn grant_leased(
    request: CreateLease,
    State(handled): State<Handled>,
) -> Result<Lease, Refused<LeaseError>> {
    sleep(Duration::from_millis(10)).await;
    handled.write(request.name.clone());
    Ok(lease(request.name))
}

/// A worker that serves sessions, and its PostgreSQL with a standby.
struct Served {
    bed: Bed,
    pair: PostgresPair,
    ledger: Ledger,
    handled: Handled,
    worker: Running,
}

impl Served {
    async fn by<H>() -> Self
    where
        H: Handler<Handled, Mode: RunsOn<idem_amqp::PostgresStore>>,
    {
        let (bed, pair) = (bed().await, PostgresPair::start().await);
        let ledger = Ledger::of(&pair.store().await).await;
        let store = ledger.store().open_postgres().await;
        let handled = Handled::default();
        let worker = Worker::builder(store).state(handled.clone());
        let queue = bed.queue().prefetch(8);
        let worker = bed.start(worker.consume_in_sessions::<H>(queue, Sessions::default()));
        bed.until_consumed(&control(bed.name()), 1).await;
        Self {
            bed,
            pair,
            ledger,
            handled,
            worker,
        }
    }

    /// The standby takes over while requests are at work; its primary has waited with each answer until it had them.
    /// Before that it falls silent, so that there are commits of which nobody was told.
    async fn all_answered_over_a_fail_over(&self) {
        self.pair.commit_on_both().await;
        let client = patient(&self.bed).timeout(Duration::from_secs(2));
        let client = client.connect(self.bed.url()).await.unwrap();
        let session = client.session().open().await.unwrap();
        let calls: Vec<_> = (0..REQUESTS).map(|it| call(&session, it)).collect();
        self.worker.ended(Kind::Executed, REQUESTS / 4).await;
        self.pair.fall_behind().await;
        // Commits begin, and wait.
        sleep(Duration::from_millis(300)).await;
        self.pair.fail_over().await;
        let answers = within("all are answered", join_all(calls)).await;
        for (number, answer) in answers.into_iter().enumerate() {
            let replied = answer.unwrap().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(replied.reply.name, number.to_string());
        }
        // The session is the one that was opened at the old primary.
        session.call(&CreateLease::of("later")).await.unwrap();
        assert_eq!(session.unanswered(), []);
        // What the client sent again is still in the queue, and would be of a session that has ended.
        self.bed.until_settled().await;
        session.close().await.unwrap();
    }

    /// Ends the worker. How often was each request handled, in its own notes and in the ledger?
    async fn end(self) -> (BTreeMap<String, usize>, BTreeMap<String, usize>) {
        self.bed.until_settled().await;
        self.worker.stop().await;
        let mut handled = BTreeMap::new();
        for name in self.handled.entries() {
            *handled.entry(name).or_default() += 1;
        }
        let charges = self.ledger.charges_per_order().await;
        self.bed.assert_nothing_stuck().await;
        (handled, charges)
    }
}

fn call(
    session: &ClientSession,
    number: usize,
) -> tokio::task::JoinHandle<Result<idem_amqp::client::Replied<Lease>, CallError<LeaseError>>> {
    let call = session.call(&CreateLease::of(&number.to_string()));
    tokio::spawn(call.into_future())
}

fn request(name: &str) -> Vec<u8> {
    json!({ "name": name }).to_string().into_bytes()
}

#[track_caller]
fn assert_once_each(times: &BTreeMap<String, usize>) {
    assert_eq!(times.len(), REQUESTS + 1, "lost: {times:?}");
    assert!(times.values().all(|it| *it == 1), "doubled: {times:?}");
}

/// PostgreSQL answers a commit when its standby has it, and the standby takes over while a session's requests are at
/// work.
///
/// - does: goes on with the session; asks again what was not answered
/// - atomic: once each, and answered
/// - leased: once each, and answered, if the standby takes over before the lease has run out
#[tokio::test]
async fn a_session_of_an_atomic_worker_goes_on_at_a_postgres_standby_that_has_all() {
    let served = Served::by::<grant_atomically>().await;
    served.all_answered_over_a_fail_over().await;
    let (_, charges) = served.end().await;
    assert_once_each(&charges);
}

/// Shares the promise of `session_standbys::a_session_of_an_atomic_worker_goes_on_at_a_postgres_standby_that_has_all`.
#[tokio::test]
async fn a_session_of_a_leased_worker_goes_on_at_a_postgres_standby_that_has_all() {
    let served = Served::by::<grant_leased>().await;
    served.all_answered_over_a_fail_over().await;
    let (handled, _) = served.end().await;
    assert_once_each(&handled);
}

/// A standby takes over that has the session, but not the completion of a request that was answered.
async fn asked_again_of_a_standby_that_lags<H>() -> (usize, usize)
where
    H: Handler<Handled, Mode: RunsOn<idem_amqp::PostgresStore>>,
{
    let served = Served::by::<H>().await;
    let requester = Requester::on(&served.bed).await;
    let session = Session::open(&requester, served.bed.name()).await;
    assert!(!session.ask(0, 0, &request("a")).await.is_replayed());
    served.pair.catch_up().await;
    served.pair.fall_behind().await;
    assert!(!session.ask(1, 0, &request("b")).await.is_replayed());
    served.pair.fail_over().await;

    // What the standby has is repeated from memory, and what it has not is not passed off as known.
    assert!(session.ask(0, 0, &request("a")).await.is_replayed());
    let again = session.ask(1, 0, &request("b")).await;
    assert_eq!(again.refusal(), None);
    assert!(!again.is_replayed(), "it runs again, and says so");
    assert!(session.ask(1, 0, &request("b")).await.is_replayed());
    // The numbers go on.
    assert_eq!(session.ask(2, 2, &request("c")).await.refusal(), None);
    let stale = session.ask(1, 1, &request("b")).await;
    assert_eq!(stale.refusal().as_deref(), Some("stale"));
    assert_eq!(session.close().await.json(), json!({}));
    let (handled, charges) = served.end().await;
    assert_eq!((handled["a"], handled["c"]), (1, 1));
    (handled["b"], charges.get("b").copied().unwrap_or_default())
}

/// A standby of PostgreSQL takes over that lags: it has the session, but not the completion of an answered request, and
/// the request is asked again.
///
/// - does: handles it again, and does not say that the answer is replayed; all else of the session goes on
/// - atomic: once in the database: the first effect is lost with the completion
/// - leased: runs again
#[tokio::test]
async fn a_request_whose_commit_a_postgres_standby_lacks_is_handled_again() {
    let (handled, charges) = asked_again_of_a_standby_that_lags::<grant_atomically>().await;
    assert_eq!((handled, charges), (2, 1));
}

/// Shares the promise of `session_standbys::a_request_whose_commit_a_postgres_standby_lacks_is_handled_again`.
#[tokio::test]
async fn a_request_whose_completion_a_postgres_standby_lacks_is_handled_again() {
    let (handled, _) = asked_again_of_a_standby_that_lags::<grant_leased>().await;
    assert_eq!(handled, 2);
}

/// A standby takes over that does not have the session. What is its client told, of a request that was answered to
/// nobody and of the next one?
async fn session_that_a_standby_lacks<H>() -> BTreeMap<String, usize>
where
    H: Handler<Handled, Mode: RunsOn<idem_amqp::PostgresStore>>,
{
    let served = Served::by::<H>().await;
    served.pair.catch_up().await;
    served.pair.fall_behind().await;
    let client = patient(&served.bed).timeout(Duration::from_millis(500));
    let client: Client = client.connect(served.bed.url()).await.unwrap();
    let session = client.session().open().await.unwrap();
    session.call(&CreateLease::of("answered")).await.unwrap();
    served.pair.fail_over().await;

    let next = session.call(&CreateLease::of("next")).await.unwrap_err();
    assert!(
        matches!(next, CallError::SessionExpired | CallError::Unknown { .. }),
        "{next:?}"
    );
    eventually("the client knows that its session has ended", async || {
        if session.has_ended() { Ok(()) } else { Err(()) }
    })
    .await;
    let later = session.call(&CreateLease::of("later")).await;
    assert!(matches!(later, Err(CallError::SessionExpired)), "{later:?}");
    // Another one is opened at the server that is in charge now.
    let another = client.session().open().await.unwrap();
    assert_ne!(another.id(), session.id());
    another.call(&CreateLease::of("another")).await.unwrap();
    another.close().await.unwrap();
    drop(session);
    served.end().await.0
}

/// A standby of PostgreSQL takes over that lags: it does not have the session.
///
/// - does: refuses its requests, `session-expired`; handles none of them; another session can be opened
/// - atomic: no effect
/// - leased: no effect
#[tokio::test]
async fn a_session_that_a_postgres_standby_lacks_has_ended_and_its_client_of_an_atomic_worker_is_told()
 {
    let handled = session_that_a_standby_lacks::<grant_atomically>().await;
    let expected = [("another", 1), ("answered", 1)];
    assert_eq!(
        handled,
        expected
            .map(|(name, times)| (name.to_owned(), times))
            .into()
    );
}

/// Shares the promise of
/// `session_standbys::a_session_that_a_postgres_standby_lacks_has_ended_and_its_client_of_an_atomic_worker_is_told`.
#[tokio::test]
async fn a_session_that_a_postgres_standby_lacks_has_ended_and_its_client_is_told() {
    let handled = session_that_a_standby_lacks::<grant_leased>().await;
    let expected = [("another", 1), ("answered", 1)];
    assert_eq!(
        handled,
        expected
            .map(|(name, times)| (name.to_owned(), times))
            .into()
    );
}
