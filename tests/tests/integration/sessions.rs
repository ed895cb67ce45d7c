//! Sessions: clients that number their requests, at a worker that keeps their answers.

use std::time::Duration;

use idem_amqp::{
    Failed, MemoryStore, Policy, Queue, Worker, WorkerBuilder,
    dead_letters::{Replayer, Selection},
    executor::ExecutionKind as Kind,
    handler::StoreOutage,
    prelude::*,
    session::{SessionStats, Sessions},
    sqlx::PgConnection,
    store::{Purge, SessionStore},
};
use idem_tests::{
    bed::{Bed, dead},
    ledger::{Charge, in_postgres},
    readings::store_stamped,
    requester::Requester,
    running::{Running, assert_balance},
    script::{Order, Script},
    session::{Session, ask_control, control, id, in_session},
    store_at::StoreAt,
};
use lapin::types::AMQPValue;
use serde_json::json;

use crate::{
    replays::{replayer, tally, until_dead},
    replies::{order, quote},
};

/// A queue of which the test cleans up all.
pub(crate) async fn bed() -> Bed {
    let bed = Bed::bare().await;
    bed.also(&control(bed.name()));
    bed.declare(&bed.queue()).await;
    bed
}

/// A worker that clients can register with.
pub(crate) async fn serving<S: SessionStore + Purge + Clone>(
    bed: &Bed,
    store: S,
    script: &Script,
    sessions: Sessions,
) -> Running {
    let worker = bed.start(building(store, script, sessions, bed.queue()));
    bed.until_consumed(&control(bed.name()), 1).await;
    worker
}

pub(crate) fn building<S: SessionStore + Purge + Clone>(
    store: S,
    script: &Script,
    sessions: Sessions,
    queue: Queue,
) -> WorkerBuilder<S, Script> {
    let worker = Worker::builder(store).state(script.clone());
    worker.consume_in_sessions::<quote>(queue, sessions)
}

/// Counts of a worker, but for those that this does not change.
pub(crate) fn counts(change: impl FnOnce(&mut SessionStats)) -> SessionStats {
    let mut counts = SessionStats::default();
    change(&mut counts);
    counts
}

/// A client opens a session, and asks one number twice.
///
/// - does: handles the number once, and repeats its answer from memory; another number with the same content is another
///   request
/// - atomic: once for each number
/// - leased: once for each number
#[tokio::test]
async fn a_client_opens_a_session_and_its_requests_are_handled_once_by_their_numbers() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    let opened = ask_control(&requester, bed.name(), "idem.open", "", &json!({})).await;
    let name = &opened.json()["session"];
    let granted = json!({"session": name, "window": 5, "life_ms": 300_000});
    assert_eq!((opened.json(), opened.refusal()), (granted, None));

    let session = Session::open(&requester, bed.name()).await;
    let first = session.ask(0, 0, &order("a")).await;
    assert_eq!(first.json(), json!({"attempt": 1}));
    assert!(!first.is_replayed());
    let again = session.ask(0, 0, &order("a")).await;
    assert_eq!((again.json(), again.is_replayed()), (first.json(), true));
    // Its own key is the same: to a session the number is what counts.
    let other = session.ask(1, 0, &order("a")).await;
    assert!(!other.is_replayed());

    assert_eq!(script.attempts(), [1, 1]);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::Duplicate, 1)]);
    assert_eq!(balance.sessions(), counts(|counts| counts.opened = 2));
    bed.assert_nothing_stuck().await;
}

/// A number is asked for whose answer the client has said to await no longer.
///
/// - does: refuses it as `stale`
/// - atomic: no effect of its own
/// - leased: no effect of its own
///
/// Whoever else sends old requests late, or asks for old answers: what is not awaited is not kept.
#[tokio::test]
async fn a_number_that_its_client_awaits_no_longer_is_stale_and_does_not_run() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    let session = Session::open(&requester, bed.name()).await;
    session.ask(0, 0, &order("a")).await;
    session.ask(4, 3, &order("b")).await;
    for number in [0, 2] {
        let late = session.ask(number, 0, &order("a")).await;
        assert_eq!(late.refusal().as_deref(), Some("stale"));
        assert!(!late.is_replayed());
    }
    script.assert_effects(["a", "b"]);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::Stale, 2)]);
    bed.assert_nothing_stuck().await;
}

/// A client has more requests under way than the window allows.
///
/// - does: refuses as `beyond-window` what is beyond it; runs it when it is asked again and the window has moved
/// - atomic: no effect
/// - leased: no effect
#[tokio::test]
async fn a_request_beyond_the_window_is_refused_and_runs_when_the_window_has_moved() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let limits = Sessions::default().window(2);
    let worker = serving(&bed, MemoryStore::new(), &script, limits).await;
    let session = Session::open(&requester, bed.name()).await;
    for number in [1, 0] {
        let inside = session.ask(number, 0, &order("a")).await;
        assert_eq!(inside.refusal(), None, "in any order");
    }
    let beyond = session.ask(2, 0, &order("b")).await;
    assert_eq!(beyond.refusal().as_deref(), Some("beyond-window"));
    let message = beyond.json()["message"].to_string();
    assert!(message.contains("the window of 2"), "{message}");
    script.assert_effects(["a", "a"]);
    let moved = session.ask(2, 1, &order("b")).await;
    assert_eq!(moved.refusal(), None);
    script.assert_effects(["a", "a", "b"]);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 3), (Kind::BeyondWindow, 1)]);
    bed.assert_nothing_stuck().await;
}

/// A session is unknown, or has ended.
///
/// - does: refuses its requests as `session-expired`
/// - atomic: no effect of its own
/// - leased: no effect of its own
#[tokio::test]
async fn a_request_of_an_unknown_session_is_refused_and_does_not_run() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    requester
        .ask_with(bed.name(), &order("a"), "c-1", in_session(&id(), 0, 0))
        .await;
    let reply = requester.reply().await;
    assert_eq!(reply.refusal().as_deref(), Some("session-expired"));
    assert!(script.attempts().is_empty());
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::SessionExpired, 1)]);
    bed.assert_nothing_stuck().await;
}

/// A request is outside of its session, and nobody waits for the refusal, or the requester is gone.
///
/// - does: dead-letters the request, with its place in the session
/// - atomic: no effect of its own
/// - leased: no effect of its own
///
/// Not acknowledged in silence: it may have run or not, and a person can find out.
#[tokio::test]
async fn a_request_outside_of_its_session_that_nobody_waits_for_is_dead_lettered() {
    let bed = bed().await;
    let (requester, gone) = (Requester::on(&bed).await, Requester::on(&bed).await);
    let script = Script::succeeding();
    let limits = Sessions::default().window(1);
    let worker = serving(&bed, MemoryStore::new(), &script, limits).await;
    let session = Session::open(&requester, bed.name()).await;
    bed.send(bed.name(), &order("a"), in_session(&session.id, 1, 0))
        .await;
    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "beyond-window");
    bed.send(bed.name(), &order("a"), in_session("unknown", 7, 6))
        .await;
    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "session-expired");
    let carried = ["idem-session", "idem-number", "idem-awaited"].map(|name| letter.value(name));
    let expected = [
        AMQPValue::LongString("unknown".into()),
        AMQPValue::LongLongInt(7),
        AMQPValue::LongLongInt(6),
    ];
    assert_eq!(carried, expected.each_ref().map(Some));

    let reply_to = gone.reply_to().to_owned();
    gone.leave().await;
    let to_nobody = in_session("unknown", 0, 0).with_reply_to(reply_to.into());
    bed.send(bed.name(), &order("a"), to_nobody).await;
    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "session-expired");
    assert!(script.attempts().is_empty());
    let balance = worker.stop().await;
    let kinds = [(Kind::SessionExpired, 2), (Kind::BeyondWindow, 1)];
    assert_balance(&balance, kinds);
    assert_eq!(balance.replies().requester_gone, 1);
    bed.assert_nothing_stuck().await;
}

/// A request of a session comes to a queue that serves no sessions.
///
/// - does: dead-letters it, refuses it as `undecodable`, says what to do
/// - atomic: no effect
/// - leased: no effect
#[tokio::test]
async fn a_sessions_request_on_a_queue_that_serves_none_never_runs() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<quote>(bed.queue()));
    requester
        .ask_with(bed.name(), &order("a"), "c-1", in_session(&id(), 0, 0))
        .await;
    let reply = requester.reply().await;
    assert_eq!(reply.refusal().as_deref(), Some("undecodable"));
    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "undecodable");
    let error = letter.error();
    assert!(
        error.contains("serves no sessions: consume it with `consume_in_sessions`"),
        "{error}"
    );
    assert!(script.attempts().is_empty());
    assert_balance(&worker.stop().await, [(Kind::Undecodable, 1)]);
    bed.assert_nothing_stuck().await;
}

/// A request's place in the session cannot be read.
///
/// - does: dead-letters it, refuses it as `undecodable`, says what to do
/// - atomic: no effect
/// - leased: no effect
#[tokio::test]
async fn a_request_whose_place_cannot_be_read_never_runs() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    let session = Session::open(&requester, bed.name()).await;
    for (number, awaited) in [(-1, 0), (0, 1)] {
        let reply = session.ask(number, awaited, &order("a")).await;
        assert_eq!(reply.refusal().as_deref(), Some("undecodable"));
        assert_eq!(bed.dead_letter().await.reason(), "undecodable");
    }
    assert!(script.attempts().is_empty());
    assert_balance(&worker.stop().await, [(Kind::Undecodable, 2)]);
    bed.assert_nothing_stuck().await;
}

/// A message without a session comes to a queue that serves sessions.
///
/// - does: handles it by the handler's own key
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn an_ordinary_request_on_a_queue_with_sessions_is_handled_once_by_its_own_key() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    for replayed in [false, true] {
        requester.ask(bed.name(), &order("a"), "c-1").await;
        assert_eq!(requester.reply().await.is_replayed(), replayed);
    }
    bed.order("b").await;
    worker.ended(Kind::Executed, 2).await;
    script.assert_effects(["a", "b"]);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::Duplicate, 1)]);
    bed.assert_nothing_stuck().await;
}

/// The dead letter of a session's request is sent again, and its client no longer awaits its answer, or the session has
/// ended.
///
/// - does: dead-letters it again, as `stale` or `session-expired`
/// - atomic: no effect
/// - leased: no effect
///
/// It does not run, and so it must not vanish either: a person has to see to it.
#[tokio::test]
async fn a_letter_that_is_sent_again_when_nobody_awaits_its_answer_is_dead_lettered_again() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let script = Script::new(async |call| match &*call.id {
        "a" => Err(Failed::retry("still down")),
        _ => Ok(()),
    });
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    let session = Session::open(&requester, bed.name()).await;
    let exhausted = session.ask(0, 0, &order("a")).await;
    assert_eq!(exhausted.refusal().as_deref(), Some("exhausted"));
    until_dead(&bed, 1).await;
    session.ask(1, 1, &order("b")).await;

    for (close, reason) in [(false, "stale"), (true, "session-expired")] {
        if close {
            session.close().await;
        }
        let replayed = replayer(&bed).replay(&Selection::all()).await.unwrap();
        assert_eq!(tally(replayed), [1, 1, 0, 0, 0]);
        let told = requester.reply().await;
        assert_eq!(told.refusal().as_deref(), Some(reason));
        until_dead(&bed, 1).await;
        let letters = replayer(&bed).look(&Selection::all()).await.unwrap();
        assert_eq!(letters[0].reason(), reason);
    }
    script.assert_effects(["b"]);
    worker.stop().await;
    assert_eq!(bed.dead_letter().await.reason(), "session-expired");
    bed.assert_nothing_stuck().await;
}

/// The dead letter of a session's request is sent again.
///
/// - does: handles it at its place, if its session still exists
/// - atomic: once
/// - leased: once, if the attempts before had no effect
///
/// Its place goes with it to the ladder and to the dead letters, and comes back with it.
#[tokio::test]
async fn a_dead_letter_of_a_session_that_is_sent_again_is_handled_at_its_place() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let script = Script::new(async |_| Err(Failed::retry("the gateway is down")));
    let store = MemoryStore::new();
    let worker = serving(&bed, store.clone(), &script, Sessions::default()).await;
    let session = Session::open(&requester, bed.name()).await;
    let refused = session.ask(0, 0, &order("a")).await;
    assert_eq!(refused.refusal().as_deref(), Some("exhausted"));
    assert_eq!(script.attempts(), [1, 2, 3]);
    worker.stop().await;

    let script = Script::succeeding();
    let worker = serving(&bed, store, &script, Sessions::default()).await;
    let replayer = Replayer::new(bed.url(), dead(bed.name())).unwrap();
    replayer.replay(&Selection::all()).await.unwrap();
    let reply = requester.reply().await;
    assert_eq!((reply.correlation(), reply.refusal()), ("0", None));
    assert!(session.ask(0, 0, &order("a")).await.is_replayed());
    script.assert_effects(["a"]);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    bed.assert_nothing_stuck().await;
}

#[idempotent(
    key = "id",
    scope = "orders.charge",
    recorded_by = "charged_order_id_key"
)]
async fn record(order: Order, db: &mut PgConnection) -> Result<(), Failed> {
    in_postgres::write_once(db, &Charge::new(&order.id, 1, "here")).await?;
    Ok(())
}

/// A handler, its policy or the limits do not allow sessions.
///
/// - does: ends the worker with a clear error before anything is consumed
/// - atomic: no effect
/// - leased: no effect
#[tokio::test]
async fn what_cannot_be_in_sessions_is_told_before_anything_is_consumed() {
    let bed = bed().await;
    let refused = async |queue: Queue, limits: Sessions| {
        let script = Script::succeeding();
        let worker = building(MemoryStore::new(), &script, limits, queue);
        bed.start(worker).failed().await.to_string()
    };
    let default = Sessions::default();
    let fail_open = Policy::builder().store_outage(StoreOutage::FailOpen);
    let fail_open = bed.queue().policy(fail_open.build().unwrap());
    let its_dead_letters = bed.queue().dead_letters(control(bed.name()));
    for (queue, limits, expected) in [
        (bed.queue(), default.window(0), "window must be 1 to 1024"),
        (
            bed.queue(),
            default.life(Duration::ZERO),
            "life must be 1 s to 24 h",
        ),
        (fail_open, default, "leave `store_outage` out"),
        (its_dead_letters, default, "is in use"),
        (
            bed.queue().no_replies(),
            default,
            "its clients wait for replies",
        ),
        (Queue::quorum("q".repeat(247)), default, "at most 246 bytes"),
    ] {
        let error = refused(queue, limits).await;
        assert!(
            error.contains("cannot serve sessions") && error.contains(expected),
            "{error}"
        );
    }
    let store = StoreAt::postgres().await.open_postgres().await;
    let worker = Worker::builder(store).consume_in_sessions::<record>(bed.queue(), default);
    let error = bed.start(worker).failed().await.to_string();
    assert!(error.contains("leave `recorded_by` out"), "{error}");
    let worker = Worker::builder(MemoryStore::new()).state(Script::succeeding());
    let worker = worker.consume_in_sessions::<store_stamped>(bed.queue(), default);
    let error = bed.start(worker).failed().await.to_string();
    let words = "its handler's key is a place in a sequence";
    assert!(error.contains(words), "{error}");
    bed.assert_nothing_stuck().await;
}
