//! Streams that stop at what cannot be handled (`OnFailure::Stop`).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use idem_amqp::{
    Failed, MemoryStore, OnFailure, Policy, Queue, Worker,
    executor::ExecutionKind as Kind,
    handler::GivenUp,
    store::StreamStore as _,
    worker::{Health, ProblemKind},
};
use idem_tests::{
    bed::{Bed, QUICK, dead, persistent},
    cell::charge_by_mark_in_postgres,
    journal::eventually,
    laddered::DELAY,
    ledger::Ledger,
    log::Log,
    metered::Metered,
    proxy::Proxy,
    running::{Running, assert_balance},
    script::{Script, charge, notify},
    store_at::Product,
};
use tokio::time::sleep;

use crate::streams::{failures, mark, mark_key, reading_as, stream, stream_bed, until_mark};

const CHARGE: &str = "orders.charge";

/// A stream that stops.
fn stopping(bed: &Bed) -> Queue {
    stream(bed).on_failure(OnFailure::Stop)
}

async fn orders(bed: &Bed, ids: std::ops::Range<u32>) {
    for id in ids {
        bed.order(&id.to_string()).await;
    }
}

fn is_stopped(health: &Health, stream: &str) -> bool {
    let queue = stream.to_owned();
    let kind = ProblemKind::StreamStopped { queue };
    health.problems().iter().any(|told| told.kind == kind)
}

async fn until_stopped(worker: &Running, stream: &str) {
    let stopped = |health: &Health| is_stopped(health, stream);
    worker.until("the stream stops", stopped).await;
}

async fn no_dead_letters(bed: &Bed) {
    let letters = dead(&failures(bed, CHARGE));
    assert_eq!(bed.waiting(&letters).await, Some((0, 0)));
    let ladder = failures(bed, CHARGE);
    let waiting = bed.waiting(&ladder).await;
    assert_eq!(waiting.map(|(messages, _)| messages), Some(0));
}

/// Refuses the order `bad` until that is mended.
fn refusing_bad() -> (Script, Arc<AtomicBool>) {
    let mended = Arc::new(AtomicBool::new(false));
    let is_mended = Arc::clone(&mended);
    let script = Script::new(move |call| {
        let refuses = call.id == "bad" && !is_mended.load(SeqCst);
        async move {
            if refuses {
                return Err(Failed::rejected("the gateway does not know the currency"));
            }
            Ok(())
        }
    });
    (script, mended)
}

/// A message of a stream that is to stop there cannot be handled; after a while its cause is mended.
///
/// - does: starts nothing behind it, also where one handler runs at a time, and does not move the mark beyond it;
///   dead-letters nothing; says so once in the log (`ERROR`), in its health, which is not ready, and as a metric; handles
///   other queues; tries it again each minute, and goes on
/// - effect: once each
#[tokio::test]
async fn a_stream_stops_at_what_cannot_be_handled_until_it_can_be() {
    let (bed, store, metered) = (stream_bed().await, MemoryStore::new(), Metered::default());
    let (log, other) = (Log::default(), bed.another("other"));
    let _logged = log.capture();
    let (script, mended) = refusing_bad();
    let key = mark_key(&bed, CHARGE);
    orders(&bed, 0..3).await;
    let worker = {
        let _recorded = metered.record();
        let worker = Worker::builder(store.clone()).state(script.clone());
        let worker = worker
            .consume_stream::<charge>(stopping(&bed).concurrency(1))
            .consume::<notify>(Queue::quorum(&other).policy(QUICK));
        bed.start(worker)
    };
    worker.ended(Kind::Executed, 3).await;
    bed.order("bad").await;
    orders(&bed, 3..5).await;
    until_stopped(&worker, bed.name()).await;
    let own = [("queue", bed.name()), ("handler", CHARGE)];
    let stops = || metered.sum("idem_stream_stopped", &own);
    let health = worker.health().clone();
    assert_eq!((health.failing_for(), health.is_ready()), (None, false));
    assert_eq!(stops(), 1);
    orders(&bed, 5..7).await;
    bed.order_to(&other, "elsewhere").await;
    script.effects.count("the other queue goes on", 4).await;
    // Longer than a mark may lag behind.
    sleep(Duration::from_secs(3)).await;
    assert_eq!(mark(&store, &key).await, Some(3));
    script.assert_effects(["0", "1", "2", "elsewhere"]);
    no_dead_letters(&bed).await;

    mended.store(true, SeqCst);
    sleep(Duration::from_secs(50)).await;
    until_mark(&store, &key, 8).await;
    worker.until("it is ready again", Health::is_ready).await;
    assert_eq!(stops(), 0);
    assert_balance(&worker.stop().await, [(Kind::Executed, 9)]);
    script.assert_effects(["0", "1", "2", "elsewhere", "bad", "3", "4", "5", "6"]);
    no_dead_letters(&bed).await;
    let told = log.text();
    let lines: Vec<_> = told.lines().filter(|line| line.contains("ERROR")).collect();
    let [line] = lines[..] else {
        panic!("{lines:#?}")
    };
    for part in ["offset=3", "rejected", "currency", "idem marks set"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

/// A message waits for its next attempt when its stream stops at one behind it, which needs its effect.
///
/// - does: runs it nevertheless, and then the one at which it stopped
/// - effect: once each
#[tokio::test]
async fn what_is_before_the_message_at_which_a_stream_stops_goes_on() {
    let (bed, store) = (stream_bed().await, MemoryStore::new());
    let is_open = Arc::new(AtomicBool::new(false));
    let script = Script::new(move |call| {
        let is_open = Arc::clone(&is_open);
        async move {
            match &*call.id {
                "open" if call.attempt == 1 => {
                    return Err(Failed::retry_after(Duration::from_secs(10), "not yet"));
                }
                "open" => is_open.store(true, SeqCst),
                _ if !is_open.load(SeqCst) => return Err(Failed::rejected("no such account")),
                _ => {}
            }
            Ok(())
        }
    });
    bed.order("open").await;
    bed.order("book").await;
    let worker = reading_as::<charge, _>(&bed, &store, &script, stopping(&bed).concurrency(2));
    until_stopped(&worker, bed.name()).await;
    until_mark(&store, &mark_key(&bed, CHARGE), 1).await;
    worker.ended(Kind::Executed, 2).await;
    worker.until("it is ready again", Health::is_ready).await;
    worker.stop().await;
    script.assert_effects(["open", "book"]);
}

/// A worker stops while its stream stands at a message whose attempts are used up, and starts again.
///
/// - does: tries again what fails at its place, not by the ladder; begins with that message again, and with a prefetch
///   of 1 none behind it has run before
/// - effect: once each
#[tokio::test]
async fn a_stream_that_stops_begins_with_the_same_message_after_a_restart() {
    let (bed, store) = (stream_bed().await, MemoryStore::new());
    let failing = Script::new(async |call| match &*call.id {
        "1" => Err(Failed::retry_after(DELAY, "not today")),
        _ => Ok(()),
    });
    let key = mark_key(&bed, CHARGE);
    let one_by_one = || stopping(&bed).prefetch(1);
    orders(&bed, 0..4).await;
    let worker = reading_as::<charge, _>(&bed, &store, &failing, one_by_one());
    until_stopped(&worker, bed.name()).await;
    let ends = [(Kind::Executed, 1), (Kind::Exhausted, 1)];
    assert_balance(&worker.stop().await, ends);
    let calls = failing.calls.entries();
    let calls: Vec<_> = calls.iter().map(|call| (&*call.id, call.attempt)).collect();
    assert_eq!(calls, [("0", 1), ("1", 1), ("1", 2), ("1", 3)]);
    assert_eq!(mark(&store, &key).await, Some(1));
    no_dead_letters(&bed).await;

    let script = Script::succeeding();
    let worker = reading_as::<charge, _>(&bed, &store, &script, one_by_one());
    worker.ended(Kind::Executed, 3).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 3)]);
    script.assert_effects(["1", "2", "3"]);
    assert_eq!(mark(&store, &key).await, Some(4));
}

/// A message that nobody will ever read stops its stream, and a person sets the mark behind it.
///
/// - does: reads on behind it; what its policy drops stops nothing
/// - effect: others once each
#[tokio::test]
async fn a_stream_that_stops_goes_on_behind_the_message_when_somebody_sets_the_mark() {
    let (bed, store) = (stream_bed().await, MemoryStore::new());
    let (script, _) = refusing_bad();
    let dropping = Policy::builder().on_rejected(GivenUp::Ack).build_const();
    let key = mark_key(&bed, CHARGE);
    bed.order("bad").await;
    orders(&bed, 0..2).await;
    bed.send(bed.name(), b"no order", persistent()).await;
    orders(&bed, 2..4).await;
    let stopping = stopping(&bed).policy(dropping).prefetch(1);
    let worker = reading_as::<charge, _>(&bed, &store, &script, stopping);
    until_stopped(&worker, bed.name()).await;
    until_mark(&store, &key, 3).await;
    script.assert_effects(["0", "1"]);
    store.set_mark(&key, Some(4)).await.unwrap();
    worker.ended(Kind::Executed, 4).await;
    worker.until("it is ready again", Health::is_ready).await;
    worker.stop().await;
    script.assert_effects(["0", "1", "2", "3"]);
    assert_eq!(mark(&store, &key).await, Some(6));
    no_dead_letters(&bed).await;
}

/// A message of a stream whose mark is the only record cannot be handled, and the stream is to stop there.
///
/// - does: calls nothing with those behind it, and moves the mark up to it
/// - effect: once each, in their order
#[tokio::test]
async fn a_stream_without_records_stops_at_what_cannot_be_handled() {
    let bed = stream_bed().await;
    let ledger = Ledger::on(Product::Postgres).await;
    let store = ledger.store().open_postgres().await;
    let (script, mended) = refusing_bad();
    orders(&bed, 0..5).await;
    bed.order("bad").await;
    orders(&bed, 5..10).await;
    let read =
        || reading_as::<charge_by_mark_in_postgres, _>(&bed, &store, &script, stopping(&bed));
    let worker = read();
    until_stopped(&worker, bed.name()).await;
    assert_eq!(charged(&ledger).await, ["0", "1", "2", "3", "4"]);
    until_mark(&store, &mark_key(&bed, CHARGE), 5).await;
    worker.stop().await;
    no_dead_letters(&bed).await;
    mended.store(true, SeqCst);
    let worker = read();
    eventually("all are charged", async || match ledger.count().await {
        11 => Ok(()),
        other => Err(other),
    })
    .await;
    worker.stop().await;
    let all = ["0", "1", "2", "3", "4", "bad", "5", "6", "7", "8", "9"];
    assert_eq!(charged(&ledger).await, all);
}

async fn charged(ledger: &Ledger) -> Vec<String> {
    let charges = ledger.charges().await;
    charges.into_iter().map(|charge| charge.order_id).collect()
}

/// A worker whose stream stops loses its connection, and another one takes over.
///
/// - does: the other one stops there, too; the first tells of no stop any more, stands by, and is ready again
/// - effect: others once each
#[tokio::test]
async fn a_stream_that_stops_is_taken_over_and_stops_there_too() {
    let (bed, store) = (stream_bed().await, MemoryStore::new());
    let (script, mended) = refusing_bad();
    let worker = || {
        let worker = Worker::builder(store.clone()).state(script.clone());
        worker.consume_stream::<charge>(stopping(&bed).prefetch(1))
    };
    bed.order("0").await;
    bed.order("bad").await;
    bed.order("1").await;
    let mut proxy = Proxy::open(bed.broker().port()).await;
    let first = Running::start(worker(), bed.url_by(proxy.port(), ""));
    until_stopped(&first, bed.name()).await;
    let second = bed.start(worker());
    second.until("the standby is ready", Health::is_ready).await;
    proxy.close().await;
    proxy.cut();
    until_stopped(&second, bed.name()).await;
    let tells_of_none = |health: &Health| !is_stopped(health, bed.name());
    first.until("it tells of no stop", tells_of_none).await;
    proxy.listen().await;
    first.until("it is ready again", Health::is_ready).await;
    second.stop().await;
    mended.store(true, SeqCst);
    script.effects.count("the first one goes on", 3).await;
    first.stop().await;
    script.assert_effects(["0", "bad", "1"]);
}

/// One partition of a super stream stops.
///
/// - does: reads the others on, and says which one it is
/// - effect: others once each
#[tokio::test]
async fn one_partition_stops_and_the_others_go_on() {
    let (bed, store) = (Bed::with_vhost().await, MemoryStore::new());
    let (script, _) = refusing_bad();
    let partitions = ["0", "1"].map(|number| format!("{}-{number}", bed.name()));
    let stream = Queue::super_stream(bed.name(), 2).on_failure(OnFailure::Stop);
    let stream = stream.policy(QUICK).prefetch(1);
    let worker = reading_as::<charge, _>(&bed, &store, &script, stream);
    worker.until("it reads", Health::is_ready).await;
    bed.order_to(&partitions[1], "bad").await;
    until_stopped(&worker, &partitions[1]).await;
    bed.order_to(&partitions[1], "behind").await;
    bed.order_to(&partitions[0], "beside").await;
    worker.ended(Kind::Executed, 1).await;
    assert!(!is_stopped(worker.health(), &partitions[0]));
    worker.stop().await;
    script.assert_effects(["beside"]);
}
