//! Streams as sources: each handler reads all of one, once, from its mark on.

use std::{
    sync::atomic::Ordering::SeqCst,
    time::{Duration, SystemTime},
};

use idem_amqp::{
    BuildError, Failed, Key, MemoryStore, Policy, Queue, StreamOffset, Worker,
    dead_letters::{Replayer, Selection},
    executor::ExecutionKind as Kind,
    handler::Handler,
    store::{Finding, Purge, Severity, StreamStore},
    worker::{Health, ProblemKind},
};
use idem_tests::{
    bed::{Bed, QUICK, dead},
    interfered::Interfered,
    journal::eventually,
    laddered::laddered,
    running::{Running, assert_balance},
    script::{Script, charge, notify},
};
use lapin::types::{AMQPValue, FieldTable};
use tokio::time::sleep;

const CHARGE: &str = "orders.charge";

/// The arguments of a stream.
pub(crate) fn stream_arguments(further: &[(&str, i64)]) -> FieldTable {
    let mut table = FieldTable::default();
    let kind = AMQPValue::LongString("stream".into());
    table.insert("x-queue-type".into(), kind);
    for (name, value) in further {
        table.insert((*name).into(), AMQPValue::LongLongInt(*value));
    }
    table
}

/// A stream that is there before its workers.
pub(crate) async fn stream_bed() -> Bed {
    let bed = Bed::with_vhost().await;
    bed.declare_foreign(bed.name(), stream_arguments(&[])).await;
    bed
}

/// As the worker declares it.
pub(crate) fn stream(bed: &Bed) -> Queue {
    let stream = Queue::stream(bed.name()).prefetch(16).policy(QUICK);
    laddered(stream).takeover_after(Duration::from_secs(2))
}

/// A stream that keeps few messages, and is there before its workers.
pub(crate) async fn small_bed() -> Bed {
    let bed = Bed::with_vhost().await;
    let sizes = [
        ("x-max-length-bytes", 20_000),
        ("x-stream-max-segment-size-bytes", 5_000),
    ];
    bed.declare_foreign(bed.name(), stream_arguments(&sizes))
        .await;
    bed
}

/// As the worker declares that.
pub(crate) fn small(bed: &Bed) -> Queue {
    stream(bed).max_bytes(20_000).segment_bytes(5_000)
}

/// Publishes copies of one order, until nothing else is left in a small stream.
pub(crate) async fn overflow(bed: &Bed) {
    let large = serde_json::json!({
        "id": "large", "amount_cents": 1, "filling": "x".repeat(3_000),
    });
    for _ in 0..100 {
        bed.json(&large).await;
    }
}

/// Tells after 20 s what others tell after minutes.
pub(crate) fn impatient(bed: &Bed) -> Queue {
    stream(bed).takeover_after(Duration::from_secs(1))
}

/// Where what fails of a handler goes.
pub(crate) fn failures(bed: &Bed, scope: &str) -> String {
    format!("{}~{scope}", bed.name())
}

pub(crate) fn mark_key(bed: &Bed, scope: &str) -> Key {
    Key::new(scope, bed.name()).unwrap()
}

pub(crate) fn reading<S: Purge + StreamStore + Clone>(
    bed: &Bed,
    store: &S,
    script: &Script,
) -> Running {
    reading_as::<charge, S>(bed, store, script, stream(bed))
}

pub(crate) fn reading_as<H, S>(bed: &Bed, store: &S, script: &Script, stream: Queue) -> Running
where
    H: Handler<Script>,
    H::Mode: idem_amqp::executor::RunsOn<S>,
    S: Purge + StreamStore + Clone,
{
    let worker = Worker::builder(store.clone()).state(script.clone());
    bed.start(worker.consume_stream::<H>(stream))
}

pub(crate) async fn mark(store: &impl StreamStore, key: &Key) -> Option<u64> {
    store.look_at_stream(key).await.unwrap()?.mark
}

/// Waits until the mark has come so far.
pub(crate) async fn until_mark(store: &impl StreamStore, key: &Key, expected: u64) {
    eventually("the mark moves", async || match mark(store, key).await {
        Some(mark) if mark == expected => Ok(()),
        seen => Err(seen),
    })
    .await;
}

async fn orders(bed: &Bed, ids: impl IntoIterator<Item = u32>) {
    for id in ids {
        bed.order(&id.to_string()).await;
    }
}

fn ids(ids: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    ids.map(|id| id.to_string())
}

/// A worker starts, stops and starts again.
///
/// - does: reads the stream from its beginning, and goes on from the mark
/// - effect: once each
#[tokio::test]
async fn a_worker_goes_on_from_the_mark() {
    let (bed, store, script) = (stream_bed().await, MemoryStore::new(), Script::succeeding());
    orders(&bed, 0..5).await;
    let worker = reading(&bed, &store, &script);
    worker.ended(Kind::Executed, 5).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 5)]);
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(5));
    orders(&bed, 5..8).await;
    let worker = reading(&bed, &store, &script);
    worker.ended(Kind::Executed, 3).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 3)]);
    script.assert_effects(ids(0..8));
}

/// Two handlers read one stream.
///
/// - does: each reads all of it, with a mark of its own
/// - effect: once each
#[tokio::test]
async fn two_handlers_read_all_of_a_stream_each() {
    let (bed, store) = (stream_bed().await, MemoryStore::new());
    let (charges, notices) = (Script::succeeding(), Script::succeeding());
    orders(&bed, 0..5).await;
    let charging = reading(&bed, &store, &charges);
    charging.ended(Kind::Executed, 5).await;
    charging.stop().await;
    orders(&bed, 5..7).await;
    let notifying = reading_as::<notify, _>(&bed, &store, &notices, stream(&bed));
    notifying.ended(Kind::Executed, 7).await;
    notifying.stop().await;
    charges.assert_effects(ids(0..5));
    notices.assert_effects(ids(0..7));
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(5));
    assert_eq!(
        mark(&store, &mark_key(&bed, "orders.notify")).await,
        Some(7)
    );
}

/// A person sets the mark back to the stream's beginning.
///
/// - does: reads all again, and knows all of it
/// - effect: once each
#[tokio::test]
async fn a_stream_that_is_read_again_from_its_beginning_is_all_duplicates() {
    let (bed, store, script) = (stream_bed().await, MemoryStore::new(), Script::succeeding());
    orders(&bed, 0..5).await;
    let worker = reading(&bed, &store, &script);
    worker.ended(Kind::Executed, 5).await;
    store.set_mark(&mark_key(&bed, CHARGE), None).await.unwrap();
    worker.ended(Kind::Duplicate, 5).await;
    let ends = [(Kind::Executed, 5), (Kind::Duplicate, 5)];
    assert_balance(&worker.stop().await, ends);
    script.assert_effects(ids(0..5));
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(5));
}

/// A message in the middle of a stream can never be handled.
///
/// - does: dead-letters it; those behind it go on, and the mark passes it
/// - effect: others once each
#[tokio::test]
async fn a_poisonous_message_is_dead_lettered_and_those_behind_it_go_on() {
    let (bed, store) = (stream_bed().await, MemoryStore::new());
    let script = Script::new(async |call| match &*call.id {
        "2" => Err(Failed::rejected("nobody wants it")),
        _ => Ok(()),
    });
    orders(&bed, 0..3).await;
    bed.send(bed.name(), b"no order", idem_tests::bed::persistent())
        .await;
    orders(&bed, 3..6).await;
    let worker = reading(&bed, &store, &script);
    worker.ended(Kind::Executed, 5).await;
    let letters = dead(&failures(&bed, CHARGE));
    let mut reasons = Vec::new();
    for _ in 0..2 {
        reasons.push(bed.dead_letter_in(&letters).await.reason().clone());
    }
    reasons.sort();
    assert_eq!(reasons, ["rejected", "undecodable"]);
    until_mark(&store, &mark_key(&bed, CHARGE), 7).await;
    let ends = [
        (Kind::Executed, 5),
        (Kind::Rejected, 1),
        (Kind::Undecodable, 1),
    ];
    assert_balance(&worker.stop().await, ends);
}

/// A handler fails for a message of a stream.
///
/// - does: tries it again by the ladder, from the handler's own queue; those behind it go on meanwhile
/// - effect: once each
#[tokio::test]
async fn what_fails_is_tried_again_by_the_ladder_and_those_behind_it_go_on() {
    let (bed, store) = (stream_bed().await, MemoryStore::new());
    let script = Script::new(async |call| match (&*call.id, call.attempt) {
        ("1", 1) => Err(Failed::retry_after(
            Duration::from_millis(300),
            "the gateway timed out",
        )),
        _ => Ok(()),
    });
    orders(&bed, 0..4).await;
    let worker = reading(&bed, &store, &script);
    worker.ended(Kind::Executed, 4).await;
    let calls = script.calls.entries();
    let last = calls.last().unwrap();
    let own = failures(&bed, CHARGE);
    assert_eq!((&*last.id, last.attempt, &last.queue), ("1", 2, &own));
    assert!(calls[..4].iter().all(|call| call.queue == bed.name()));
    let ends = [(Kind::Executed, 4), (Kind::Failed, 1)];
    assert_balance(&worker.stop().await, ends);
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(4));
    script.assert_effects(["0", "2", "3", "1"]);
}

/// A handler fails for a moment, shorter than the first rung of the ladder.
///
/// - does: keeps the message and tries it again: a stream takes nothing back
/// - effect: once
#[tokio::test]
async fn what_fails_for_a_moment_is_kept_and_tried_again() {
    let (bed, store) = (stream_bed().await, MemoryStore::new());
    let script = Script::new(async |call| match call.attempt {
        1 => Err(Failed::retry("not yet")),
        _ => Ok(()),
    });
    orders(&bed, 0..2).await;
    let worker = reading(&bed, &store, &script);
    worker.ended(Kind::Executed, 2).await;
    worker.stop().await;
    let calls = script.calls.entries();
    assert_eq!(calls.len(), 4, "{calls:?}");
    assert!(
        calls.iter().all(|call| call.queue == bed.name()),
        "{calls:?}"
    );
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(2));
}

/// A dead letter of a stream is sent again.
///
/// - does: runs it from the handler's own queue; other handlers of the stream do not see it
/// - effect: once
#[tokio::test]
async fn a_dead_letter_of_a_stream_is_sent_again_to_its_handler_alone() {
    let (bed, store) = (stream_bed().await, MemoryStore::new());
    let refusing = Script::new(async |_| Err(Failed::rejected("not today")));
    let notices = Script::succeeding();
    orders(&bed, 0..1).await;
    let worker = reading(&bed, &store, &refusing);
    worker.ended(Kind::Rejected, 1).await;
    worker.stop().await;
    let notifying = reading_as::<notify, _>(&bed, &store, &notices, stream(&bed));
    notifying.ended(Kind::Executed, 1).await;
    let script = Script::succeeding();
    let worker = reading(&bed, &store, &script);
    let letters = Replayer::new(bed.url(), dead(&failures(&bed, CHARGE))).unwrap();
    let replayed = letters.replay(&Selection::all()).await.unwrap();
    assert_eq!(replayed.replayed, 1, "{replayed}");
    worker.ended(Kind::Executed, 1).await;
    script.assert_effects(["0"]);
    worker.stop().await;
    assert_balance(&notifying.stop().await, [(Kind::Executed, 1)]);
}

/// Two workers of one handler read a stream.
///
/// - does: lets one read and the other stand by, ready; it takes over at once when the first stops
/// - effect: once each
#[tokio::test]
async fn one_worker_reads_a_stream_and_the_others_stand_by() {
    let (bed, store, script) = (stream_bed().await, MemoryStore::new(), Script::succeeding());
    // No lease ends in time: it is given back.
    let stream = || stream(&bed).takeover_after(Duration::from_mins(10));
    orders(&bed, 0..3).await;
    let first = reading_as::<charge, _>(&bed, &store, &script, stream());
    first.ended(Kind::Executed, 3).await;
    let second = reading_as::<charge, _>(&bed, &store, &script, stream());
    second
        .until("the standby is ready", idem_amqp::worker::Health::is_ready)
        .await;
    orders(&bed, 3..6).await;
    first.ended(Kind::Executed, 6).await;
    assert_balance(&first.stop().await, [(Kind::Executed, 6)]);
    orders(&bed, 6..8).await;
    second.ended(Kind::Executed, 2).await;
    assert_balance(&second.stop().await, [(Kind::Executed, 2)]);
    script.assert_effects(ids(0..8));
}

/// A handler begins with what is published from now on.
///
/// - does: skips what was there before, and nothing behind it, also if the worker stops before it has handled anything
/// - effect: once each
#[tokio::test]
async fn a_handler_that_begins_at_the_end_misses_nothing_from_then_on() {
    let (bed, store) = (stream_bed().await, MemoryStore::new());
    let (hanging, script) = (Script::hanging(), Script::succeeding());
    orders(&bed, 0..3).await;
    // Those that are dropped leave their leases.
    let policy = Policy::builder()
        .lease(Duration::from_secs(1))
        .build_const();
    let at_the_end = || stream(&bed).policy(policy).offset(StreamOffset::Next);
    let worker = Worker::builder(store.clone()).state(hanging.clone());
    let worker = worker
        .consume_stream::<charge>(at_the_end())
        .grace(Duration::ZERO);
    let worker = bed.start(worker);
    worker
        .until("it reads", idem_amqp::worker::Health::is_ready)
        .await;
    orders(&bed, 3..5).await;
    hanging.calls.count("both are begun", 2).await;
    worker.stop().await;
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(3));
    orders(&bed, 5..6).await;
    let worker = reading_as::<charge, _>(&bed, &store, &script, at_the_end());
    script.effects.count("nothing is missed", 3).await;
    worker.stop().await;
    let mut ids: Vec<_> = script
        .effects
        .entries()
        .into_iter()
        .map(|call| call.id)
        .collect();
    ids.sort();
    assert_eq!(ids, ["3", "4", "5"]);
}

/// A handler begins with what was published since a time that has passed.
///
/// - does: skips what was there before, and nothing behind it, also if the worker stops before it has handled anything
/// - effect: once each
#[tokio::test]
async fn a_handler_that_begins_at_a_time_skips_what_is_older_and_nothing_else() {
    let (bed, store) = (stream_bed().await, MemoryStore::new());
    let (hanging, script) = (Script::hanging(), Script::succeeding());
    orders(&bed, 0..3).await;
    // The broker tells times apart by seconds.
    sleep(Duration::from_secs(2)).await;
    let since = SystemTime::now();
    sleep(Duration::from_secs(2)).await;
    orders(&bed, 3..6).await;
    let policy = Policy::builder()
        .lease(Duration::from_secs(1))
        .build_const();
    let begin = |script: &Script| {
        let stream = stream(&bed).policy(policy);
        let stream = stream.offset(StreamOffset::Timestamp(since));
        let worker = Worker::builder(store.clone()).state(script.clone());
        bed.start(
            worker
                .consume_stream::<charge>(stream)
                .grace(Duration::ZERO),
        )
    };
    let worker = begin(&hanging);
    hanging.calls.count("the first is begun", 1).await;
    worker.stop().await;
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(3));
    orders(&bed, 6..7).await;
    let worker = begin(&script);
    worker.ended(Kind::Executed, 4).await;
    worker.stop().await;
    script.assert_effects(ids(3..7));
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(7));
}

/// A handler begins at an offset that its user says.
///
/// - does: skips what is below, and nothing else; once it has a mark, what the user says counts no more
/// - effect: once each
#[tokio::test]
async fn a_handler_that_begins_at_an_offset_skips_what_is_below_and_nothing_else() {
    let (bed, store, script) = (stream_bed().await, MemoryStore::new(), Script::succeeding());
    orders(&bed, 0..6).await;
    let begin = |offset| {
        let from = stream(&bed).offset(StreamOffset::Offset(offset));
        reading_as::<charge, _>(&bed, &store, &script, from)
    };
    let worker = begin(4);
    worker.ended(Kind::Executed, 2).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 2)]);
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(6));
    orders(&bed, 6..8).await;
    let worker = begin(1);
    worker.ended(Kind::Executed, 2).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 2)]);
    script.assert_effects(ids(4..8));
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(8));
}

/// A worker that begins at a place that moves stops before anything has come.
///
/// - does: has written the place down, and the next one begins there
/// - effect: once each
#[tokio::test]
async fn a_place_that_moves_is_kept_before_the_first_message() {
    let later = SystemTime::now() + Duration::from_hours(1);
    for from in [StreamOffset::Next, StreamOffset::Timestamp(later)] {
        let (bed, store, script) = (stream_bed().await, MemoryStore::new(), Script::succeeding());
        orders(&bed, 0..3).await;
        let worker = reading_as::<charge, _>(&bed, &store, &script, stream(&bed).offset(from));
        until_mark(&store, &mark_key(&bed, CHARGE), 3).await;
        worker.stop().await;
        orders(&bed, 3..5).await;
        let worker = reading_as::<charge, _>(&bed, &store, &script, stream(&bed).offset(from));
        worker.ended(Kind::Executed, 2).await;
        worker.stop().await;
        script.assert_effects(ids(3..5));
    }
}

/// A worker stops while it looks for the place where it begins, in a stream that is empty.
///
/// - does: gives the stream back, so that the next one need not wait for its lease
/// - effect: once each
#[tokio::test]
async fn a_worker_that_stops_before_it_has_a_place_gives_the_stream_back() {
    let (bed, store, script) = (stream_bed().await, MemoryStore::new(), Script::succeeding());
    let from_end = || {
        let stream = stream(&bed).offset(StreamOffset::Next);
        stream.takeover_after(Duration::from_mins(10))
    };
    let worker = reading_as::<charge, _>(&bed, &store, &script, from_end());
    let key = mark_key(&bed, CHARGE);
    eventually("the stream is claimed", async || {
        let state = store.look_at_stream(&key).await.unwrap();
        state
            .is_some_and(|it| !it.remaining.is_zero())
            .then_some(())
            .ok_or("not yet")
    })
    .await;
    worker.stop().await;
    let state = store.look_at_stream(&key).await.unwrap().unwrap();
    assert_eq!(state.remaining, Duration::ZERO);
    let worker = reading_as::<charge, _>(&bed, &store, &script, from_end());
    worker.until("it reads", Health::is_ready).await;
    orders(&bed, 0..2).await;
    worker.ended(Kind::Executed, 2).await;
    worker.stop().await;
    script.assert_effects(ids(0..2));
}

/// The store is away for a while.
///
/// - does: stops the stream, settles nothing, and goes on by itself
/// - effect: once each
#[tokio::test]
async fn a_stream_stops_while_the_store_is_away_and_goes_on() {
    let (bed, script) = (stream_bed().await, Script::succeeding());
    let (store, away) = Interfered::switched(MemoryStore::new());
    orders(&bed, 0..3).await;
    let worker = reading(&bed, &store, &script);
    worker.ended(Kind::Executed, 3).await;
    away.store(true, SeqCst);
    orders(&bed, 3..6).await;
    worker
        .until("it misses the store", |health| {
            let problems = health.problems();
            let mut kinds = problems.iter().map(|problem| &problem.kind);
            kinds.any(|kind| *kind == ProblemKind::StoreUnavailable)
        })
        .await;
    assert_eq!(worker.settled.entries().len(), 3);
    away.store(false, SeqCst);
    worker.ended(Kind::Executed, 6).await;
    worker.stop().await;
    script.assert_effects(ids(0..6));
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(6));
}

fn has(findings: &[Finding], severity: Severity, code: &str) -> bool {
    let mut found = findings.iter();
    found.any(|finding| (finding.severity, finding.code) == (severity, code))
}

fn has_problem(worker: &Running, kind: &ProblemKind) -> bool {
    let problems = worker.health().problems();
    problems.iter().any(|problem| problem.kind == *kind)
}

/// A stream removes messages before they are handled.
///
/// - does: says so in the log, in its health and by the doctor, and handles the others
/// - effect: others once each
#[tokio::test]
async fn a_stream_that_was_truncated_above_the_mark_is_told() {
    let bed = small_bed().await;
    let (store, script) = (MemoryStore::new(), Script::succeeding());
    let small = || small(&bed);
    orders(&bed, 0..3).await;
    let worker = reading_as::<charge, _>(&bed, &store, &script, small());
    worker.ended(Kind::Executed, 3).await;
    worker.stop().await;
    overflow(&bed).await;
    orders(&bed, 3..4).await;
    let examined = Worker::builder(store.clone())
        .state(script.clone())
        .consume_stream::<charge>(small())
        .build(bed.url())
        .unwrap();
    eventually("the doctor says it", async || {
        let findings = Box::pin(examined.doctor()).await;
        if has(&findings, Severity::Warning, "stream-truncated") {
            return Ok(());
        }
        Err(findings)
    })
    .await;
    let worker = reading_as::<charge, _>(&bed, &store, &script, small());
    script.effects.count("the others are handled", 5).await;
    let kind = ProblemKind::StreamTruncated {
        queue: bed.name().into(),
    };
    assert!(has_problem(&worker, &kind), "{}", worker.health());
    assert!(worker.health().is_ready(), "{}", worker.health());
    worker.stop().await;
}

/// A stream was deleted and made anew, or set back: it ends before the mark.
///
/// - does: tries again, for 20 times `takeover_after`; reads nothing before a person sets the mark; says so in the log,
///   in its health and by the doctor
/// - effect: once each
#[tokio::test]
async fn a_stream_that_ends_before_the_mark_waits_for_somebody() {
    let (bed, store, script) = (stream_bed().await, MemoryStore::new(), Script::succeeding());
    orders(&bed, 0..5).await;
    let worker = reading(&bed, &store, &script);
    worker.ended(Kind::Executed, 5).await;
    worker.stop().await;
    bed.delete(bed.name()).await;
    bed.declare_foreign(bed.name(), stream_arguments(&[])).await;
    orders(&bed, 10..12).await;
    let worker = reading_as::<charge, _>(&bed, &store, &script, impatient(&bed));
    let kind = ProblemKind::MarkBeyondEnd {
        queue: bed.name().into(),
    };
    worker
        .until("it says so", |health| {
            let problems = health.problems();
            problems.iter().any(|problem| problem.kind == kind)
        })
        .await;
    assert!(!worker.health().is_ready());
    let examined = Worker::builder(store.clone())
        .state(script.clone())
        .consume_stream::<charge>(stream(&bed))
        .build(bed.url())
        .unwrap();
    let findings = examined.doctor().await;
    assert!(
        has(&findings, Severity::Error, "stream-mark-beyond-end"),
        "{findings:?}"
    );
    worker.stop().await;
    // Another worker, when the stream has grown beyond the mark.
    orders(&bed, 12..17).await;
    let worker = reading(&bed, &store, &script);
    let until = async |what: &str, expected: bool| {
        worker
            .until(what, |health| {
                let problems = health.problems();
                problems.iter().any(|problem| problem.kind == kind) == expected
            })
            .await;
    };
    until("it says so, too", true).await;
    assert_eq!(script.effects.entries().len(), 5);
    // To what it was.
    let key = mark_key(&bed, CHARGE);
    store.set_mark(&key, Some(5)).await.unwrap();
    worker.ended(Kind::Executed, 2).await;
    until("it reads", false).await;
    worker.stop().await;
    script.assert_effects(ids(0..5).chain(ids(15..17)));
}

/// A queue is consumed as a stream, or a stream as a queue.
///
/// - does: does not start, and says what to write
/// - effect: —
#[tokio::test]
async fn a_queue_is_no_stream_and_a_stream_no_queue() {
    let bed = stream_bed().await;
    let worker = || Worker::builder(MemoryStore::new()).state(Script::succeeding());
    let wrong = [
        worker().consume::<charge>(Queue::stream("ledger")),
        worker().consume_stream::<charge>(Queue::quorum("orders")),
        worker().consume_stream::<charge>(Queue::stream("ledger").local_retries()),
        worker()
            .consume_stream::<charge>(Queue::stream("ledger"))
            .consume_stream::<notify>(Queue::stream("ledger")),
    ];
    for worker in wrong {
        let error = worker.build(bed.url()).err();
        assert!(
            matches!(
                error,
                Some(BuildError::Stream { .. } | BuildError::NativeRetries { .. })
            ),
            "{error:?}"
        );
    }
    let name = bed.another("queue");
    bed.declare_foreign(&name, FieldTable::default()).await;
    let worker = worker().consume_stream::<charge>(Queue::existing_stream(&name));
    let findings = worker.build(bed.url()).unwrap().doctor().await;
    assert!(
        has(&findings, Severity::Error, "not-a-stream"),
        "{findings:?}"
    );
}
