//! What comes between a session's request and its answer.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use idem_amqp::{
    Failed, MemoryStore,
    executor::ExecutionKind as Kind,
    session::Sessions,
    store::{Purge, SessionStore},
    worker::{Health, ProblemKind},
};
use idem_tests::{
    bed::Bed,
    interfered::{Call, Interfered},
    journal::eventually,
    ledger::{Charge, Ledger},
    process::{Crash, Mode, Process, Settings},
    requester::{Reply, Requester},
    running::assert_balance,
    script::Script,
    session::{Session, control, control_properties},
    store_at::{Product, StoreAt},
};
use serde_json::json;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};

use crate::{
    replies::order,
    sessions::{bed, building, serving},
};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

fn expired(reply: &Reply) -> bool {
    reply.refusal().as_deref() == Some("session-expired")
}

/// A script whose handlers wait until the test lets them go on, and then do as they are told.
fn gated(act: fn(u32) -> Result<(), Failed>) -> (Script, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let waited_for = Arc::clone(&gate);
    let script = Script::new(move |call| {
        let gate = Arc::clone(&waited_for);
        async move {
            gate.acquire().await?.forget();
            act(call.attempt)
        }
    });
    (script, gate)
}

/// Two clients whose requests have equal numbers and equal content, from first to last.
async fn two_clients<S: SessionStore + Purge + Clone>(store: S) {
    let bed = bed().await;
    let requesters = [Requester::on(&bed).await, Requester::on(&bed).await];
    let script = Script::succeeding();
    let limits = Sessions::default().window(2);
    let worker = serving(&bed, store, &script, limits).await;
    let mut sessions = Vec::new();
    for requester in &requesters {
        sessions.push(Session::open(requester, bed.name()).await);
    }
    for session in &sessions {
        for number in [0, 1] {
            let answer = session.ask(number, 0, &order("a")).await;
            assert!(!answer.is_replayed(), "{number} of {session:?}");
        }
    }
    let [one, other] = &sessions[..] else {
        unreachable!("there are two")
    };
    let beyond = one.ask(2, 0, &order("a")).await;
    assert_eq!(beyond.refusal().as_deref(), Some("beyond-window"));
    assert_eq!(one.ask(2, 1, &order("a")).await.refusal(), None);
    let stale = one.ask(0, 0, &order("a")).await;
    assert_eq!(stale.refusal().as_deref(), Some("stale"));
    assert_eq!(one.close().await.json(), json!({}));
    assert!(expired(&one.ask(2, 1, &order("a")).await));
    for number in [0, 1] {
        let answer = other.ask(number, 0, &order("a")).await;
        assert!(answer.is_replayed(), "the other's is its own");
    }
    script.assert_effects(["a"; 5]);
    let balance = worker.stop().await;
    let kinds = [
        (Kind::Executed, 5),
        (Kind::Duplicate, 2),
        (Kind::Stale, 1),
        (Kind::SessionExpired, 1),
        (Kind::BeyondWindow, 1),
    ];
    assert_balance(&balance, kinds);
    bed.assert_nothing_stuck().await;
}

/// Two clients use the same numbers.
///
/// - does: keeps them apart
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn two_clients_with_equal_numbers_are_kept_apart_in_memory() {
    two_clients(MemoryStore::new()).await;
}

/// Shares the promise of `session_faults::two_clients_with_equal_numbers_are_kept_apart_in_memory`.
#[tokio::test]
async fn two_clients_with_equal_numbers_are_kept_apart_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let at = StoreAt::sqlite(&folder.path().join("idem.db"));
    two_clients(at.open_sqlite().await).await;
}

/// Shares the promise of `session_faults::two_clients_with_equal_numbers_are_kept_apart_in_memory`.
#[tokio::test]
async fn two_clients_with_equal_numbers_are_kept_apart_in_postgres() {
    let at = StoreAt::postgres().await;
    two_clients(at.open_postgres().await).await;
}

/// Shares the promise of `session_faults::two_clients_with_equal_numbers_are_kept_apart_in_memory`.
#[tokio::test]
async fn two_clients_with_equal_numbers_are_kept_apart_in_redis() {
    let at = StoreAt::redis().await;
    two_clients(at.open_redis().await).await;
}

/// A worker dies after the completion of a session's request and before its reply.
async fn answered_by_the_next_worker(store: Product, mode: Mode) {
    let bed = bed().await;
    let ledger = Ledger::on(store).await;
    let requester = Requester::on(&bed).await;
    let next = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = mode;
        settings.sessions = true;
        settings.name = "next".into();
    });
    let dying = next.with(|settings| {
        settings.name = "dying".into();
        settings.crash = Some(Crash::AfterCompletion(1));
    });
    let dying = Process::start(LEDGER_WORKER, &dying);
    bed.until_consumed(&control(bed.name()), 1).await;
    let session = Session::open(&requester, bed.name()).await;
    session.send(0, 0, &order("a")).await;
    dying.died().await;
    let next = Process::start(LEDGER_WORKER, &next);
    let reply = requester.reply().await;
    assert_eq!((reply.correlation(), reply.is_replayed()), ("0", true));
    assert_eq!(reply.refusal(), None);
    next.ended("duplicate", 1).await;
    next.stop().await;
    assert_eq!(ledger.charges().await, [Charge::new("a", 1, "dying")]);
    bed.assert_nothing_stuck().await;
}

/// A worker is killed between the completion of a session's request and its answer.
///
/// - does: lets the next worker answer from memory
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_worker_killed_between_commit_and_answer_is_followed_by_one_that_answers_from_postgres() {
    answered_by_the_next_worker(Product::Postgres, Mode::Atomic).await;
}

/// Shares the promise of
/// `session_faults::a_worker_killed_between_commit_and_answer_is_followed_by_one_that_answers_from_postgres`.
#[tokio::test]
async fn a_worker_killed_between_commit_and_answer_is_followed_by_one_that_answers_from_sqlite() {
    answered_by_the_next_worker(Product::Sqlite, Mode::Atomic).await;
}

/// Shares the promise of
/// `session_faults::a_worker_killed_between_commit_and_answer_is_followed_by_one_that_answers_from_postgres`.
#[tokio::test]
async fn a_worker_killed_between_completion_and_answer_is_followed_by_one_that_answers_from_redis()
{
    answered_by_the_next_worker(Product::Redis, Mode::Leased).await;
}

/// The answer is lost, and the client asks again from elsewhere.
///
/// - does: repeats the answer from memory, to where it is asked from
/// - atomic: once
/// - leased: once
///
/// Whoever of the client asks again: the answer goes to where it is asked from.
#[tokio::test]
async fn an_answer_that_was_lost_is_had_by_asking_again_with_the_same_number() {
    let bed = bed().await;
    let (gone, back) = (Requester::on(&bed).await, Requester::on(&bed).await);
    let (script, gate) = gated(|_| Ok(()));
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    let session = Session::open(&back, bed.name()).await;
    session.by(&gone).send(0, 0, &order("a")).await;
    script.calls.count("the handler runs", 1).await;
    gone.leave().await;
    gate.add_permits(1);
    worker.ended(Kind::Executed, 1).await;
    let again = session.ask(0, 0, &order("a")).await;
    assert_eq!(again.json(), json!({"attempt": 1}));
    assert!(again.is_replayed());
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    assert_eq!(balance.replies().requester_gone, 1);
    bed.assert_nothing_stuck().await;
}

/// A session is closed, or runs out, before the next attempt of a failed request.
///
/// - does: makes no further attempt: `session-expired`
/// - atomic: no effect
/// - leased: unknown
///
/// The attempt that was under way when the session ended failed, and there is no other.
#[tokio::test]
async fn a_session_that_is_closed_before_a_retry_has_none() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let (script, gate) = gated(|_| Err(Failed::retry("the gateway is down")));
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    let session = Session::open(&requester, bed.name()).await;
    session.send(0, 0, &order("a")).await;
    script.calls.count("the handler runs", 1).await;
    session.close().await;
    gate.add_permits(9);
    assert!(expired(&requester.reply().await));
    assert_eq!(script.attempts(), [1]);
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `session_faults::a_session_that_is_closed_before_a_retry_has_none`.
///
/// Nobody gives a sign of life: the client may have died.
#[tokio::test]
async fn a_session_that_runs_out_before_a_retry_has_none() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let (script, gate) = gated(|_| Err(Failed::retry("the gateway is down")));
    // Long enough for the request of a client that has just come, though a busy machine stalls a process.
    let life = Duration::from_secs(15);
    let limits = Sessions::default().life(life);
    let worker = serving(&bed, MemoryStore::new(), &script, limits).await;
    let session = Session::open(&requester, bed.name()).await;
    session.send(0, 0, &order("a")).await;
    script.calls.count("the handler runs", 1).await;
    // The claim was the last sign of life.
    sleep(life).await;
    gate.add_permits(9);
    assert!(expired(&requester.reply().await));
    assert!(expired(&session.heartbeat().await));
    assert_eq!(script.attempts(), [1]);
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// A session ends while its request is handled.
///
/// - does: answers the request when it is done; nobody may ask again
/// - atomic: once
/// - leased: once
///
/// What was begun in time counts, though nobody may ask for it again.
#[tokio::test]
async fn a_request_that_outlasts_its_session_is_answered() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let (script, gate) = gated(|_| Ok(()));
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    let session = Session::open(&requester, bed.name()).await;
    session.send(0, 0, &order("a")).await;
    script.calls.count("the handler runs", 1).await;
    session.close().await;
    gate.add_permits(1);
    assert_eq!(requester.reply().await.json(), json!({"attempt": 1}));
    assert!(expired(&session.ask(0, 0, &order("a")).await));
    script.assert_effects(["a"]);
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// The backlog of requests takes longer than a session's lifetime.
///
/// - does: takes signs of life beside the backlog: no session ends whose client is there
/// - atomic: once
/// - leased: once
///
/// Signs of life do not wait behind requests, and requests in time are not needed.
#[tokio::test]
async fn a_backlog_that_takes_longer_than_a_life_ends_no_session_whose_client_is_there() {
    // Longer than a busy machine may stall a process between two signs of life, twice.
    const LIFE: Duration = Duration::from_secs(15);
    let bed = bed().await;
    let (asking, beating) = (Requester::on(&bed).await, Requester::on(&bed).await);
    let (script, gate) = gated(|_| Ok(()));
    let limits = Sessions::default().life(LIFE);
    let store = MemoryStore::new();
    let queue = bed.queue().prefetch(1);
    let worker = bed.start(building(store, &script, limits, queue));
    bed.until_consumed(&control(bed.name()), 1).await;
    let session = Session::open(&asking, bed.name()).await;
    for number in 0..4 {
        session.send(number, 0, &order("a")).await;
    }
    script.calls.count("the first is under way", 1).await;
    let begun = Instant::now();
    let alive = session.by(&beating);
    let mut heartbeats = 0;
    while begun.elapsed() < LIFE + Duration::from_secs(3) {
        assert_eq!(alive.heartbeat().await.refusal(), None);
        heartbeats += 1;
        sleep(Duration::from_millis(500)).await;
    }
    gate.add_permits(4);
    for _ in 0..4 {
        assert_eq!(asking.reply().await.refusal(), None);
    }
    script.assert_effects(["a"; 4]);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 4)]);
    assert_eq!(balance.sessions().heartbeats, heartbeats);
    bed.assert_nothing_stuck().await;
}

/// The store is away, and a queue serves sessions.
///
/// - does: runs nothing, and leaves signs of life unanswered; sessions go on if the store is back within their lifetime
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_store_outage_shorter_than_a_life_delays_requests_and_ends_no_session() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let (store, away) = Interfered::switched(MemoryStore::new());
    let worker = serving(&bed, store.clone(), &script, Sessions::default()).await;
    let session = Session::open(&requester, bed.name()).await;
    away.store(true, SeqCst);
    session.send(0, 0, &order("a")).await;
    unanswered(&bed, &requester, &session).await;
    eventually("both have asked the store", async || {
        let asked = (store.count(Call::Claim), store.count(Call::Session));
        if asked.0 > 0 && asked.1 > 1 {
            return Ok(());
        }
        Err(asked)
    })
    .await;
    assert!(script.attempts().is_empty());
    away.store(false, SeqCst);
    let reply = requester.reply().await;
    assert_eq!((reply.correlation(), reply.refusal()), ("0", None));
    assert_eq!(session.heartbeat().await.refusal(), None);
    script.assert_effects(["a"]);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1)]);
    let sessions = balance.sessions();
    assert_eq!((sessions.heartbeats, sessions.unanswered), (1, 1));
    assert_eq!(sessions.undelivered, 0);
    bed.assert_nothing_stuck().await;
}

/// The store is away, and nothing but signs of life needs it.
///
/// - does: says so in its health until the store answers
///
/// Whatever its requests meet, or though there are none.
#[tokio::test]
async fn a_store_outage_that_signs_of_life_alone_meet_is_told() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let (store, away) = Interfered::switched(MemoryStore::new());
    let script = Script::succeeding();
    let worker = serving(&bed, store, &script, Sessions::default()).await;
    let session = Session::open(&requester, bed.name()).await;
    worker.until("it is ready", Health::is_ready).await;
    away.store(true, SeqCst);
    unanswered(&bed, &requester, &session).await;
    let told = |health: &Health| {
        let problems = health.problems();
        problems
            .iter()
            .any(|one| one.kind == ProblemKind::StoreUnavailable)
    };
    worker.until("the outage is told", told).await;
    let health = worker.health().to_string();
    assert!(health.contains("refused by the test"), "{health}");
    assert!(worker.health().failing_for().is_some());
    away.store(false, SeqCst);
    assert_eq!(session.heartbeat().await.refusal(), None);
    worker.until("it is over", Health::is_ready).await;
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// A sign of life to which no answer comes.
async fn unanswered(bed: &Bed, requester: &Requester, session: &Session<'_>) {
    let properties = control_properties("idem.heartbeat", "");
    let properties = properties.with_reply_to(requester.reply_to().into());
    let body = json!({ "session": session.id }).to_string();
    let queue = control(bed.name());
    bed.send(&queue, body.as_bytes(), properties).await;
}
