//! The limits of a stream: what nobody can read in it, its last chunk, what was removed from it or is not there any
//! more, and what holds its mark up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use idem_amqp::{
    MemoryStore, Policy, StreamOffset, Worker,
    executor::ExecutionKind as Kind,
    store::StreamStore as _,
    worker::{Health, Incident, ProblemKind},
};
use idem_servers::rabbitmq::Version;
use idem_tests::{
    bed::{Bed, dead},
    foreign_publisher::{Hostile, Readable, publish_hostile},
    interfered::{Call, Fate, Interfered},
    journal::eventually,
    metered::Metered,
    proxy::Proxy,
    running::{Running, assert_balance},
    script::{Order, Script, charge},
    servers::off_thread,
};

use crate::streams::{
    failures, impatient, mark, mark_key, overflow, reading, reading_as, small, small_bed, stream,
    stream_arguments, stream_bed, until_mark,
};

const CHARGE: &str = "orders.charge";

const NAMED: Readable<'static> = Readable {
    message_id: Some("m-1"),
    reply_to: None,
    correlation_id: None,
};

/// An order with hostile properties, one before and one behind it. Tells its body.
async fn publish_between(bed: &Bed, hostile: Hostile) -> Vec<u8> {
    let order = serde_json::to_vec(&Order::new("h")).unwrap();
    bed.order("a").await;
    publish_hostile(bed.url(), bed.name(), hostile, NAMED, &order).await;
    bed.order("b").await;
    order
}

/// The message is dead-lettered, those before and behind it are handled, and the mark passes all.
async fn dead_lettered_alone(bed: Bed, hostile: Hostile, told: &str) {
    let (store, script) = (MemoryStore::new(), Script::succeeding());
    // The queues are there before: a busy broker that cannot make one closes the connection, too.
    let first = reading(&bed, &store, &script);
    first.until("it reads", Health::is_ready).await;
    first.stop().await;
    let order = publish_between(&bed, hostile).await;
    let worker = reading(&bed, &store, &script);

    let letter = bed.dead_letter_in(&dead(&failures(&bed, CHARGE))).await;
    assert_eq!(letter.reason(), "unreadable");
    assert!(letter.error().contains(told), "{}", letter.error());
    assert_eq!(letter.body, order);
    worker.ended(Kind::Executed, 2).await;
    until_mark(&store, &mark_key(&bed, CHARGE), 3).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::Undecodable, 1)]);
    assert_eq!(balance.incidents().to_string(), "");
    script.assert_effects(["a", "b"]);
}

/// The name of a header, or a property, of a message in a stream is not UTF-8.
///
/// - does: dead-letters it, `unreadable`, with its body; those behind it go on, and the mark passes it
/// - effect: others once each
#[tokio::test]
async fn a_property_that_is_not_utf_8_dead_letters_its_message_of_a_stream_alone() {
    dead_lettered_alone(stream_bed().await, Hostile::TypeNotUtf8, "UTF-8").await;
}

/// Shares the promise of
/// `stream_limits::a_property_that_is_not_utf_8_dead_letters_its_message_of_a_stream_alone`.
#[tokio::test]
async fn a_headers_name_that_is_not_utf_8_dead_letters_its_message_of_a_stream_alone() {
    dead_lettered_alone(stream_bed().await, Hostile::NameNotUtf8, "UTF-8").await;
}

/// Headers of a message in a stream are arrays nested more than 64 deep.
///
/// - does: as with what is not UTF-8; RabbitMQ before 4.0 keeps no such header in a stream, so the message is handled
/// - effect: others once each
#[tokio::test]
async fn headers_nested_1500_deep_hold_up_nothing_in_a_stream() {
    let (bed, hostile) = (stream_bed().await, Hostile::Nested(1_500));
    if bed.broker().version() >= Version::new(4, 0) {
        return dead_lettered_alone(bed, hostile, "nested").await;
    }
    let (store, script) = (MemoryStore::new(), Script::succeeding());
    publish_between(&bed, hostile).await;
    let worker = reading(&bed, &store, &script);
    worker.ended(Kind::Executed, 3).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 3)]);
    script.assert_effects(["a", "h", "b"]);
}

async fn orders(bed: &Bed, ids: std::ops::Range<u32>) {
    for id in ids {
        bed.order(&id.to_string()).await;
    }
}

/// A handler begins with the last chunk of a stream.
///
/// - does: skips what was there before, and nothing behind it, also if the worker stops before it has handled anything
/// - effect: once each
#[tokio::test]
async fn a_handler_that_begins_with_the_last_chunk_misses_nothing_from_there_on() {
    let (bed, store) = (stream_bed().await, MemoryStore::new());
    let (hanging, script) = (Script::hanging(), Script::succeeding());
    // Confirmed one after the other, so each is a chunk.
    orders(&bed, 0..3).await;
    let policy = Policy::builder()
        .lease(Duration::from_secs(1))
        .build_const();
    let from_last = || stream(&bed).policy(policy).offset(StreamOffset::Last);
    let worker = Worker::builder(store.clone()).state(hanging.clone());
    let worker = worker
        .consume_stream::<charge>(from_last())
        .grace(Duration::ZERO);
    let worker = bed.start(worker);
    worker.until("it reads", Health::is_ready).await;
    hanging.calls.count("the last one is begun", 1).await;
    worker.stop().await;
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(2));
    orders(&bed, 3..5).await;
    let worker = Worker::builder(store.clone()).state(script.clone());
    let worker = bed.start(worker.consume_stream::<charge>(from_last()));
    worker.ended(Kind::Executed, 3).await;
    worker.stop().await;
    script.assert_effects(["2", "3", "4"]);
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(5));
}

/// The broker was restored from a backup: its stream ends before the mark.
///
/// - does: reads nothing before a person sets the mark to the beginning; then what was completed is a duplicate
/// - effect: once each
#[tokio::test]
async fn a_stream_of_a_restored_broker_is_read_again_when_somebody_says_so() {
    let (bed, store, script) = (stream_bed().await, MemoryStore::new(), Script::succeeding());
    orders(&bed, 0..5).await;
    let worker = reading(&bed, &store, &script);
    worker.ended(Kind::Executed, 5).await;
    worker.stop().await;
    // The backup has the first three.
    bed.delete(bed.name()).await;
    bed.declare_foreign(bed.name(), stream_arguments(&[])).await;
    orders(&bed, 0..3).await;
    let worker = reading_as::<charge, _>(&bed, &store, &script, impatient(&bed));
    let kind = ProblemKind::MarkBeyondEnd {
        queue: bed.name().into(),
    };
    let is_told = |health: &Health| health.problems().iter().any(|told| told.kind == kind);
    worker.until("it says so", is_told).await;
    orders(&bed, 5..7).await;
    let key = mark_key(&bed, CHARGE);
    store.set_mark(&key, Some(0)).await.unwrap();
    worker.ended(Kind::Executed, 2).await;
    worker.until("it reads", |health| !is_told(health)).await;
    let ends = [(Kind::Duplicate, 3), (Kind::Executed, 2)];
    assert_balance(&worker.stop().await, ends);
    let ids = (0..7).map(|id: u32| id.to_string());
    script.assert_effects(ids);
    assert_eq!(mark(&store, &key).await, Some(5));
}

fn has_problem(health: &Health, kind: &ProblemKind) -> bool {
    health.problems().iter().any(|told| told.kind == *kind)
}

/// A stream removes messages while a worker reads it, and before they were handled.
///
/// - does: says so in the log and in its health, and handles the others
/// - effect: others once each
#[tokio::test]
async fn a_stream_that_is_truncated_above_the_mark_while_it_is_read_is_told() {
    let (bed, (script, gate)) = (small_bed().await, Script::slow());
    let small = small(&bed).prefetch(2);
    let worker = reading_as::<charge, _>(&bed, &MemoryStore::new(), &script, small);
    worker.until("it reads", Health::is_ready).await;
    bed.json(&Order::new("slow")).await;
    script.calls.count("the first one runs", 1).await;
    overflow(&bed).await;
    gate.add_permits(1000);
    let queue = bed.name().to_owned();
    let kind = ProblemKind::StreamTruncated { queue };
    let is_told = |health: &Health| has_problem(health, &kind);
    worker.until("it says so", is_told).await;
    assert!(worker.health().is_ready(), "{}", worker.health());
    worker.stop().await;
}

/// The message at the mark of a stream takes long.
///
/// - does: says for how long, and how far the mark is behind, as metrics; after 20 times `takeover_after` also in the
///   log and in its health; handles those behind it
/// - effect: once each
#[tokio::test]
async fn a_mark_that_stands_still_is_told_until_it_moves() {
    let (bed, store, metered) = (stream_bed().await, MemoryStore::new(), Metered::default());
    let (script, gate) = Script::waiting(|call| call.id == "slow");
    bed.order("slow").await;
    orders(&bed, 0..5).await;
    let worker = {
        let _recorded = metered.record();
        reading_as::<charge, _>(&bed, &store, &script, impatient(&bed))
    };
    script.effects.count("those behind it are done", 5).await;
    let queue = bed.name().to_owned();
    let kind = ProblemKind::StreamStalled { queue };
    let stalls = |health: &Health| has_problem(health, &kind);
    worker.until("it says so", stalls).await;
    assert!(worker.health().is_ready(), "{}", worker.health());
    let own = [("queue", bed.name()), ("handler", CHARGE)];
    let sum = |name: &str| metered.sum(name, &own);
    assert_eq!((sum("idem_stream_reads"), sum("idem_stream_mark")), (1, 0));
    assert!(sum("idem_stream_oldest_seconds") >= 20);
    eventually("the lag is measured", async || {
        match sum("idem_stream_lag_messages") {
            5 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    gate.add_permits(1);
    worker.until("it moves", |health| !stalls(health)).await;
    until_mark(&store, &mark_key(&bed, CHARGE), 6).await;
    worker.stop().await;
    assert_eq!(sum("idem_stream_reads"), 0);
}

/// A worker may not consume its stream any more after a reconnect.
///
/// - does: gives it back at once, and another worker reads it
/// - effect: once each
#[tokio::test]
async fn a_stream_that_one_worker_cannot_consume_is_read_by_another() {
    let (bed, store, script) = (stream_bed().await, MemoryStore::new(), Script::succeeding());
    let other = bed.name();
    rabbitmqctl(&bed, ["add_user", other, "secret"]).await;
    permit(&bed, other, ".*").await;
    // Longer than the test waits.
    let long = || stream(&bed).takeover_after(Duration::from_mins(5));
    let worker = || {
        let worker = Worker::builder(store.clone()).state(script.clone());
        worker.consume_stream::<charge>(long())
    };
    let mut proxy = Proxy::open(bed.broker().port()).await;
    let refused = Running::start(worker(), bed.url_by(proxy.port(), ""));
    refused.until("it reads", Health::is_ready).await;
    proxy.close().await;
    proxy.cut();
    permit(&bed, "guest", &format!("^(?!{}$)", bed.name())).await;
    proxy.listen().await;
    let queue = bed.name().to_owned();
    let kind = ProblemKind::NotConsuming { queue };
    let is_refused = |health: &Health| {
        let refusals = health.incidents().of(Incident::QueueRefused);
        refusals > 0 && has_problem(health, &kind)
    };
    refused.until("it is refused", is_refused).await;
    let own = format!("{other}:secret");
    let reader = Running::start(worker(), bed.url().replace("guest:guest", &own));
    orders(&bed, 0..2).await;
    reader.ended(Kind::Executed, 2).await;
    reader.stop().await;
    refused.stop().await;
    permit(&bed, "guest", ".*").await;
    script.assert_effects(["0", "1"]);
}

async fn rabbitmqctl<const N: usize>(bed: &Bed, arguments: [&str; N]) {
    let (broker, arguments) = (bed.broker().clone(), arguments.map(str::to_owned));
    off_thread(move || broker.rabbitmqctl(arguments)).await;
}

/// Lets a user read what this matches, and do everything else.
async fn permit(bed: &Bed, user: &str, read: &str) {
    let ctl = ["set_permissions", "-p", bed.vhost(), user, ".*", ".*", read];
    rabbitmqctl(bed, ctl).await;
}

/// The store takes claims of keys, and not the mark of a stream.
///
/// - does: says so in the log and in its health, and starts nothing more when its lease is over
/// - effect: once each
#[tokio::test]
async fn a_mark_that_cannot_be_saved_stops_its_reading() {
    let (bed, script) = (stream_bed().await, Script::succeeding());
    let refuses = Arc::new(AtomicBool::new(false));
    let refusing = Arc::clone(&refuses);
    let store = Interfered::new(MemoryStore::new(), move |call, _| {
        if call == Call::Stream && refusing.load(SeqCst) {
            Fate::Refuse
        } else {
            Fate::Pass
        }
    });
    orders(&bed, 0..2).await;
    let worker = reading_as::<charge, _>(&bed, &store, &script, impatient(&bed));
    worker.ended(Kind::Executed, 2).await;
    refuses.store(true, SeqCst);
    let queue = bed.name().to_owned();
    let kind = ProblemKind::NotConsuming { queue };
    let stops = |health: &Health| has_problem(health, &kind);
    worker.until("it says so", stops).await;
    refuses.store(false, SeqCst);
    orders(&bed, 2..4).await;
    worker.ended(Kind::Executed, 4).await;
    worker.until("it reads again", Health::is_ready).await;
    worker.stop().await;
    script.assert_effects(["0", "1", "2", "3"]);
}

/// Nothing comes for a while, and the channel of a stream is renewed; then a message comes.
///
/// - does: handles it as one that comes for the first time
/// - effect: once each
#[tokio::test]
async fn what_comes_after_a_renewed_channel_of_a_stream_was_not_delivered_before() {
    let (bed, script) = (stream_bed().await, Script::succeeding());
    let store = Interfered::new(MemoryStore::new(), |_, _| Fate::Pass);
    // Somebody has read it before.
    let key = mark_key(&bed, CHARGE);
    store.set_mark(&key, Some(0)).await.unwrap();
    let worker = Worker::builder(store.clone()).state(script.clone());
    let worker = worker
        .consume_stream::<charge>(stream(&bed).takeover_after(Duration::from_mins(5)))
        .renew_idle_after(Duration::from_millis(100));
    orders(&bed, 0..1).await;
    let worker = bed.start(worker);
    worker.ended(Kind::Executed, 1).await;
    // Each renewal claims the stream, and nothing is saved meanwhile.
    let calls = store.count(Call::Stream);
    renewed(&store, calls + 5).await;
    orders(&bed, 1..2).await;
    worker.ended(Kind::Executed, 2).await;
    worker.stop().await;
    let told = script.calls.entries();
    let redelivered: Vec<_> = told.iter().map(|call| call.redelivered).collect();
    assert_eq!(redelivered, [true, false]);
}

async fn renewed(store: &Interfered<MemoryStore>, calls: u64) {
    eventually("the channel is renewed", async || {
        match store.count(Call::Stream) {
            seen if seen >= calls => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
}

/// A person takes the mark of a handler away that begins at the end of a stream.
///
/// - does: begins anew, at the end as it is now
/// - effect: once each
#[tokio::test]
async fn a_handler_whose_mark_is_taken_away_begins_at_the_end_as_it_is_now() {
    let (bed, store, script) = (stream_bed().await, MemoryStore::new(), Script::succeeding());
    let from_end = impatient(&bed).offset(StreamOffset::Next);
    // The stream is empty: its end is known by its first message.
    let worker: Running = reading_as::<charge, _>(&bed, &store, &script, from_end);
    worker.until("it reads", Health::is_ready).await;
    orders(&bed, 0..3).await;
    worker.ended(Kind::Executed, 3).await;
    let key = mark_key(&bed, CHARGE);
    until_mark(&store, &key, 3).await;
    store.set_mark(&key, None).await.unwrap();
    // It is written down when the stream is claimed again.
    until_mark(&store, &key, 3).await;
    orders(&bed, 3..4).await;
    worker.ended(Kind::Executed, 4).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 4)]);
    script.assert_effects(["0", "1", "2", "3"]);
}
