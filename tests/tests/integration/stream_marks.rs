//! Streams whose mark alone says what is done: it moves in the transaction in which the handler writes a batch.

use std::time::Duration;

use idem_amqp::{
    Failed, PostgresStore, Worker,
    dead_letters::{Replayer, Selection},
    executor::ExecutionKind as Kind,
    store::StreamStore as _,
};
use idem_tests::{
    bed::{Bed, dead},
    cell::{charge_by_mark_in_order, charge_by_mark_in_postgres, charge_by_mark_in_sqlite},
    journal::eventually,
    ledger::Ledger,
    process::{Crash, Keys, Mode, Process, Settings},
    proxy::Proxy,
    running::{Running, assert_balance},
    script::Script,
    store_at::Product,
};
use nix::sys::signal::Signal;

use crate::streams::{failures, mark_key, reading_as, stream, stream_bed, until_mark};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

const CHARGE: &str = "orders.charge";

async fn postgres() -> (Ledger, PostgresStore) {
    let ledger = Ledger::on(Product::Postgres).await;
    let store = ledger.store().open_postgres().await;
    (ledger, store)
}

async fn orders(bed: &Bed, ids: std::ops::Range<u32>) {
    for id in ids {
        bed.order(&id.to_string()).await;
    }
}

/// The orders that were charged, in the order of their charges.
async fn charged(ledger: &Ledger) -> Vec<String> {
    let charges = ledger.charges().await;
    charges.into_iter().map(|charge| charge.order_id).collect()
}

async fn until_charged(ledger: &Ledger, count: usize) {
    eventually("so many are charged", async || match ledger.count().await {
        charged if charged >= count => Ok(()),
        charged => Err(charged),
    })
    .await;
}

fn ids(ids: std::ops::Range<u32>) -> Vec<String> {
    ids.map(|id| id.to_string()).collect()
}

/// A handler whose key is the position takes the messages of a stream in batches.
///
/// - does: calls it with several at once, in their order, and moves the mark with what it writes; keeps no record
/// - effect: once each
#[tokio::test]
async fn a_stream_is_handled_without_a_record_of_each_message() {
    let (bed, script) = (stream_bed().await, Script::succeeding());
    let (ledger, store) = postgres().await;
    orders(&bed, 0..100).await;
    let worker = reading_as::<charge_by_mark_in_postgres, _>(&bed, &store, &script, stream(&bed));
    worker.ended(Kind::Executed, 100).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 100)]);
    assert_eq!(charged(&ledger).await, ids(0..100));
    assert_eq!(ledger.records().await, 0);
    until_mark(&store, &mark_key(&bed, CHARGE), 100).await;
    assert!(script.largest_batch() > 1, "{:?}", script.batches.entries());
}

/// Shares the promise of `stream_marks::a_stream_is_handled_without_a_record_of_each_message`.
#[tokio::test]
async fn a_stream_is_handled_without_a_record_of_each_message_on_sqlite() {
    let (bed, script) = (stream_bed().await, Script::succeeding());
    let ledger = Ledger::on(Product::Sqlite).await;
    let store = ledger.store().open_sqlite().await;
    orders(&bed, 0..100).await;
    let worker = reading_as::<charge_by_mark_in_sqlite, _>(&bed, &store, &script, stream(&bed));
    worker.ended(Kind::Executed, 100).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 100)]);
    assert_eq!(charged(&ledger).await, ids(0..100));
    assert_eq!(ledger.records().await, 0);
}

/// Messages of such a stream fail: for good, for a while, or cannot be decoded.
///
/// - does: finds them by calls with fewer, and handles them alone; dead-letters them, or tries them again by the
///   ladder; no other one overtakes
/// - effect: others once each, in their order
#[tokio::test]
async fn what_fails_of_a_stream_without_records_is_handled_alone() {
    let bed = stream_bed().await;
    let (ledger, store) = postgres().await;
    let script = Script::new(async |call| match (&*call.id, &*call.queue) {
        ("bad", _) => Err(Failed::rejected("nobody wants it")),
        ("later", queue) if !queue.contains('~') => {
            Err(Failed::retry_after(Duration::from_millis(300), "not yet"))
        }
        _ => Ok(()),
    });
    orders(&bed, 0..5).await;
    bed.order("bad").await;
    orders(&bed, 5..20).await;
    bed.order("later").await;
    bed.send(bed.name(), b"no order", idem_tests::bed::persistent())
        .await;
    orders(&bed, 20..30).await;
    let worker = reading_as::<charge_by_mark_in_postgres, _>(&bed, &store, &script, stream(&bed));
    worker.ended(Kind::Executed, 31).await;
    let letters = dead(&failures(&bed, CHARGE));
    let mut reasons = Vec::new();
    for _ in 0..2 {
        reasons.push(bed.dead_letter_in(&letters).await.reason().clone());
    }
    assert_eq!(reasons, ["rejected", "undecodable"]);
    let ends = [
        (Kind::Executed, 31),
        (Kind::Failed, 1),
        (Kind::Rejected, 1),
        (Kind::Undecodable, 1),
    ];
    assert_balance(&worker.stop().await, ends);
    let mut all = charged(&ledger).await;
    all.retain(|id| id != "later");
    assert_eq!(all, ids(0..30));
    assert_eq!(ledger.count().await, 31);
}

/// A message of such a stream fails for a while, and its handler says what messages are ordered by.
///
/// - does: tries it again at its place; those behind it wait
/// - effect: once each, in their order
#[tokio::test]
async fn what_fails_of_an_ordered_stream_without_records_keeps_its_place() {
    let bed = stream_bed().await;
    let (ledger, store) = postgres().await;
    let script = Script::new(async |call| match (&*call.id, call.attempt) {
        ("later", 1) => Err(Failed::retry_after(Duration::from_millis(300), "not yet")),
        _ => Ok(()),
    });
    orders(&bed, 0..5).await;
    bed.order("later").await;
    orders(&bed, 5..10).await;
    let worker = reading_as::<charge_by_mark_in_order, _>(&bed, &store, &script, stream(&bed));
    worker.ended(Kind::Executed, 11).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 11)]);
    let later = vec!["later".to_owned()];
    assert_eq!(
        charged(&ledger).await,
        [ids(0..5), later, ids(5..10)].concat()
    );
    until_mark(&store, &mark_key(&bed, CHARGE), 11).await;
}

/// A dead letter of such a stream is sent again.
///
/// - does: runs it from the handler's own queue, under its place in the stream
/// - effect: once
#[tokio::test]
async fn a_dead_letter_of_a_stream_without_records_is_sent_again() {
    let bed = stream_bed().await;
    let (ledger, store) = postgres().await;
    let refusing = Script::new(async |_| Err(Failed::rejected("not today")));
    orders(&bed, 0..1).await;
    let read = |script: &Script| {
        reading_as::<charge_by_mark_in_postgres, _>(&bed, &store, script, stream(&bed))
    };
    let worker = read(&refusing);
    worker.ended(Kind::Rejected, 1).await;
    worker.stop().await;
    let worker = read(&Script::succeeding());
    let letters = Replayer::new(bed.url(), dead(&failures(&bed, CHARGE))).unwrap();
    let replayed = letters.replay(&Selection::all()).await.unwrap();
    assert_eq!(replayed.replayed, 1, "{replayed}");
    worker.ended(Kind::Executed, 1).await;
    worker.stop().await;
    assert_eq!(charged(&ledger).await, ids(0..1));
}

/// A person sets the mark of such a stream back.
///
/// - does: handles all from there on again; those that may have been delivered before one by one, which leaves records
///   of them
/// - effect: as often as it is read, but for what has a record
#[tokio::test]
async fn a_mark_that_is_the_record_is_set_back_and_all_is_done_again() {
    let (bed, script) = (stream_bed().await, Script::succeeding());
    let (ledger, store) = postgres().await;
    let key = mark_key(&bed, CHARGE);
    orders(&bed, 0..20).await;
    let worker = reading_as::<charge_by_mark_in_postgres, _>(&bed, &store, &script, stream(&bed));
    until_charged(&ledger, 20).await;
    store.set_mark(&key, Some(10)).await.unwrap();
    until_charged(&ledger, 30).await;
    store.set_mark(&key, Some(10)).await.unwrap();
    worker.ended(Kind::Duplicate, 10).await;
    worker.stop().await;
    assert_eq!(charged(&ledger).await, [ids(0..20), ids(10..20)].concat());
}

/// The connection is lost in the middle of such a stream.
///
/// - does: reads on from the mark
/// - effect: once each, in their order
#[tokio::test]
async fn a_reader_without_records_whose_connection_is_lost_reads_on() {
    let bed = stream_bed().await;
    let script = Script::new(async |_| {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(())
    });
    let (ledger, store) = postgres().await;
    let proxy = Proxy::open(bed.broker().port()).await;
    let worker = Worker::builder(store.clone()).state(script.clone());
    let worker = worker.consume_stream::<charge_by_mark_in_postgres>(stream(&bed));
    let worker = Running::start(worker, bed.url_by(proxy.port(), ""));
    orders(&bed, 0..60).await;
    until_charged(&ledger, 10).await;
    proxy.cut();
    orders(&bed, 60..100).await;
    until_charged(&ledger, 100).await;
    worker.stop().await;
    assert_eq!(charged(&ledger).await, ids(0..100));
    until_mark(&store, &mark_key(&bed, CHARGE), 100).await;
}

/// A worker's process dies in the middle of such a stream, of itself or by a signal, and another one comes.
async fn killed(product: Product, crash: Option<Crash>) {
    let bed = stream_bed().await;
    let ledger = Ledger::on(product).await;
    let next = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = Mode::Batched;
        settings.keys = Keys::Places;
        settings.stream = true;
        settings.work_ms = 5;
        settings.max_attempts = 20;
        settings.prefetch = 32;
    });
    orders(&bed, 0..100).await;
    let mut dying = Process::start(LEDGER_WORKER, &next.with(|it| it.crash = crash));
    if crash.is_some() {
        dying.died().await;
    } else {
        dying.ended("executed", 40).await;
        dying.signal(Signal::SIGKILL);
        dying.exit().await;
    }
    let next = Process::start(LEDGER_WORKER, &next);
    until_charged(&ledger, 100).await;
    orders(&bed, 100..130).await;
    until_charged(&ledger, 130).await;
    next.stop().await;
    assert_eq!(charged(&ledger).await, ids(0..130));
}

/// A worker that reads such a stream is killed.
///
/// - does: another one takes over after its lease, and goes on from the mark
/// - effect: once each, in their order
#[tokio::test]
async fn a_reader_without_records_that_is_killed_loses_and_doubles_nothing_on_postgres() {
    killed(Product::Postgres, None).await;
}

/// Shares the promise of `stream_marks::a_reader_without_records_that_is_killed_loses_and_doubles_nothing_on_postgres`.
#[tokio::test]
async fn a_reader_without_records_killed_before_a_commit_loses_and_doubles_nothing_on_sqlite() {
    killed(Product::Sqlite, Some(Crash::BeforeCompletion(4))).await;
}

/// Shares the promise of `stream_marks::a_reader_without_records_that_is_killed_loses_and_doubles_nothing_on_postgres`.
#[tokio::test]
async fn a_reader_without_records_killed_after_a_commit_loses_and_doubles_nothing_on_postgres() {
    killed(Product::Postgres, Some(Crash::AfterCompletion(4))).await;
}

/// A message of such a stream kills every process that handles it.
///
/// - does: counts the attempts, although no record is kept of others; dead-letters it, and goes on
/// - effect: nothing of it, others once each
#[tokio::test]
async fn a_message_that_kills_readers_without_records_is_given_up() {
    let bed = stream_bed().await;
    let ledger = Ledger::on(Product::Postgres).await;
    let deadly = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = Mode::Batched;
        settings.keys = Keys::Places;
        settings.stream = true;
        settings.crash = Some(Crash::InHandler);
    });
    bed.order("deadly").await;
    orders(&bed, 0..3).await;
    // With the others first, and then alone.
    for _ in 0..4 {
        Process::start(LEDGER_WORKER, &deadly).died().await;
    }
    let last = Process::start(LEDGER_WORKER, &deadly.with(|it| it.crash = None));
    last.ended("exhausted", 1).await;
    last.ended("executed", 3).await;
    last.stop().await;
    assert_eq!(charged(&ledger).await, ids(0..3));
}
