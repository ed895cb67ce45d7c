//! What comes between a message of a stream and its completion.

use std::time::Duration;

use idem_amqp::{
    MemoryStore, StreamOffset, Worker, executor::ExecutionKind as Kind, store::StreamStore as _,
    worker::Health,
};
use idem_tests::{
    journal::eventually,
    ledger::Ledger,
    process::{Crash, Mode, Process, Settings},
    proxy::Proxy,
    running::Running,
    script::{Script, charge},
    store_at::Product,
};
use nix::sys::signal::Signal;

use crate::streams::{mark, mark_key, stream, stream_bed};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

const CHARGE: &str = "orders.charge";

async fn until_charged(ledger: &Ledger, orders: usize) {
    eventually("every order is charged", async || {
        match ledger.charges_per_order().await.len() {
            charged if charged == orders => Ok(()),
            charged => Err(charged),
        }
    })
    .await;
}

/// A worker's process dies in the middle of a stream, of itself or by a signal, and another one comes.
async fn killed(product: Product, mode: Mode, crash: Option<Crash>) {
    let bed = stream_bed().await;
    let ledger = Ledger::on(product).await;
    let next = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = mode;
        settings.stream = true;
        settings.work_ms = 5;
        settings.max_attempts = 20;
        settings.rungs_ms = Some(vec![200, 500]);
        // Of leased handlers, those that have run and are not completed would run again.
        settings.prefetch = if mode == Mode::Leased { 1 } else { 8 };
    });
    for id in 0..100 {
        bed.order(&id.to_string()).await;
    }
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
    for id in 100..110 {
        bed.order(&id.to_string()).await;
    }
    until_charged(&ledger, 110).await;
    next.stop().await;
    let charges = ledger.charges_per_order().await;
    let twice: Vec<_> = charges.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

/// A worker that reads a stream is killed.
///
/// - does: another one takes over after its lease, and goes on from the mark
/// - effect: once each; leased: but for effects that were not completed
#[tokio::test]
async fn a_reader_killed_in_the_middle_of_a_stream_loses_and_doubles_nothing_on_postgres() {
    killed(Product::Postgres, Mode::Atomic, None).await;
}

/// Shares the promise of
/// `stream_faults::a_reader_killed_in_the_middle_of_a_stream_loses_and_doubles_nothing_on_postgres`.
#[tokio::test]
async fn a_reader_killed_before_a_commit_loses_and_doubles_nothing_on_sqlite() {
    killed(
        Product::Sqlite,
        Mode::Atomic,
        Some(Crash::BeforeCompletion(40)),
    )
    .await;
}

/// Shares the promise of
/// `stream_faults::a_reader_killed_in_the_middle_of_a_stream_loses_and_doubles_nothing_on_postgres`.
#[tokio::test]
async fn a_reader_killed_after_a_commit_loses_and_doubles_nothing_on_postgres() {
    killed(
        Product::Postgres,
        Mode::Atomic,
        Some(Crash::AfterCompletion(40)),
    )
    .await;
}

/// Shares the promise of
/// `stream_faults::a_reader_killed_in_the_middle_of_a_stream_loses_and_doubles_nothing_on_postgres`.
#[tokio::test]
async fn a_reader_killed_after_a_completion_loses_and_doubles_nothing_on_redis() {
    killed(
        Product::Redis,
        Mode::Leased,
        Some(Crash::AfterCompletion(40)),
    )
    .await;
}

/// A message of a stream kills every process that handles it.
///
/// - does: counts the attempts, although a stream does not say that it delivers again; dead-letters it
/// - effect: nothing of it
#[tokio::test]
async fn a_message_that_kills_its_readers_is_given_up() {
    let bed = stream_bed().await;
    let ledger = Ledger::on(Product::Postgres).await;
    let deadly = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.stream = true;
        settings.prefetch = 1;
        settings.crash = Some(Crash::InHandler);
    });
    bed.order("deadly").await;
    for _ in 0..3 {
        Process::start(LEDGER_WORKER, &deadly).died().await;
    }
    let last = Process::start(LEDGER_WORKER, &deadly);
    last.ended("exhausted", 1).await;
    last.stop().await;
    assert_eq!(ledger.count().await, 0);
}

/// The connection is lost in the middle of a stream.
///
/// - does: reads on from where it was
/// - effect: once each
#[tokio::test]
async fn a_reader_whose_connection_is_lost_reads_on() {
    let (bed, store, script) = (stream_bed().await, MemoryStore::new(), Script::succeeding());
    let proxy = Proxy::open(bed.broker().port()).await;
    let worker = Worker::builder(store.clone()).state(script.clone());
    let worker = worker.consume_stream::<charge>(stream(&bed));
    let worker = Running::start(worker, bed.url_by(proxy.port(), ""));
    for id in 0..30 {
        bed.order(&id.to_string()).await;
    }
    worker.ended(Kind::Executed, 10).await;
    proxy.cut();
    for id in 30..60 {
        bed.order(&id.to_string()).await;
    }
    script.effects.count("all take effect", 60).await;
    worker.stop().await;
    let mut ids: Vec<u32> = script
        .effects
        .entries()
        .iter()
        .map(|call| call.id.parse().unwrap())
        .collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..60));
    assert_eq!(mark(&store, &mark_key(&bed, CHARGE)).await, Some(60));
}

/// A worker begins at the end of a stream that is empty, and its connection is lost before the first message.
///
/// - does: begins where it was to begin, also after a while in which nothing came
/// - effect: once each
#[tokio::test]
async fn a_reader_at_the_end_of_an_empty_stream_misses_nothing() {
    let (bed, store, script) = (stream_bed().await, MemoryStore::new(), Script::succeeding());
    let mut proxy = Proxy::open(bed.broker().port()).await;
    let worker = Worker::builder(store.clone()).state(script.clone());
    let worker = worker
        .consume_stream::<charge>(stream(&bed).offset(StreamOffset::Next))
        .renew_idle_after(Duration::from_millis(50));
    let worker = Running::start(worker, bed.url_by(proxy.port(), ""));
    worker.until("it reads", Health::is_ready).await;
    proxy.close().await;
    proxy.cut();
    worker
        .until("it has no connection", |health| !health.is_ready())
        .await;
    for id in 0..3 {
        bed.order(&id.to_string()).await;
    }
    proxy.listen().await;
    worker.ended(Kind::Executed, 3).await;
    worker.stop().await;
    script.assert_effects(["0", "1", "2"]);
}

/// A worker that reads a stream stops while it has no connection.
///
/// - does: gives the stream back, with its mark
/// - effect: once each
#[tokio::test]
async fn a_reader_that_stops_without_a_connection_gives_the_stream_back() {
    let (bed, store, script) = (stream_bed().await, MemoryStore::new(), Script::succeeding());
    let mut proxy = Proxy::open(bed.broker().port()).await;
    let worker = Worker::builder(store.clone()).state(script.clone());
    let long = Duration::from_mins(10);
    let worker = worker.consume_stream::<charge>(stream(&bed).takeover_after(long));
    let worker = Running::start(worker, bed.url_by(proxy.port(), ""));
    for id in 0..3 {
        bed.order(&id.to_string()).await;
    }
    worker.ended(Kind::Executed, 3).await;
    proxy.close().await;
    proxy.cut();
    worker
        .until("it has no connection", |health| !health.is_ready())
        .await;
    worker.stop().await;
    let state = store.look_at_stream(&mark_key(&bed, CHARGE)).await.unwrap();
    let state = state.unwrap();
    assert_eq!((state.mark, state.remaining), (Some(3), Duration::ZERO));
}
