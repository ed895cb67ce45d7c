//! What comes between a message of a stream and its completion.

use std::{fs, ops::Range, path::PathBuf, time::Duration};

use idem_amqp::{
    Failed, MemoryStore, StreamOffset, Worker,
    executor::ExecutionKind as Kind,
    store::StreamStore as _,
    worker::{Health, ProblemKind},
};
use idem_tests::{
    journal::eventually,
    ledger::Ledger,
    process::{Crash, Gate, Keys, Mode, Process, Settings},
    proxy::Proxy,
    running::{Running, assert_balance},
    script::{Script, charge},
    store_at::Product,
};
use lapin::types::FieldTable;
use nix::sys::signal::Signal;
use tokio::time::{Instant, sleep};

use crate::streams::{mark, mark_key, reading_as, stream, stream_bed, until_mark};

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

/// The dead letter of a message of a stream cannot be published.
///
/// - does: does not move the mark beyond the message before the dead letter is confirmed, and says so in its health;
///   handles those behind it
/// - effect: others once each
#[tokio::test]
async fn the_mark_waits_until_a_dead_letter_of_a_stream_is_confirmed() {
    let (bed, store) = (stream_bed().await, MemoryStore::new());
    let script = Script::new(async |call| match &*call.id {
        "bad" => Err(Failed::rejected("nobody wants it")),
        _ => Ok(()),
    });
    let (exchange, letters) = (bed.another("letters"), bed.another("kept"));
    // It leads nowhere yet.
    bed.declare_foreign_exchange(&exchange).await;
    bed.declare_foreign(&letters, FieldTable::default()).await;
    bed.order("0").await;
    bed.order("bad").await;
    bed.order("1").await;
    let stream = stream(&bed).dead_letter_exchange(&exchange, Some("letters"));
    let worker = reading_as::<charge, _>(&bed, &store, &script, stream);
    script.effects.count("the others are handled", 2).await;
    let queue = bed.name().to_owned();
    let kind = ProblemKind::Unpublished { queue };
    worker
        .until("it says so", |health| {
            health.problems().iter().any(|told| told.kind == kind)
        })
        .await;
    // Longer than a mark may lag behind.
    sleep(Duration::from_secs(3)).await;
    let key = mark_key(&bed, CHARGE);
    assert_eq!(mark(&store, &key).await, Some(1));
    bed.bind(&letters, &exchange, "letters").await;
    assert_eq!(bed.dead_letter_in(&letters).await.reason(), "rejected");
    until_mark(&store, &key, 3).await;
    let ends = [(Kind::Executed, 2), (Kind::Rejected, 1)];
    assert_balance(&worker.stop().await, ends);
    script.assert_effects(["0", "1"]);
}

/// A worker that reads a stream is paused behind three orders, or in the middle of them if they wait for a gate. Another
/// one takes over and does three more, and the first goes on.
async fn taken_over(change: impl Fn(&mut Settings), gate: Option<PathBuf>) {
    let bed = stream_bed().await;
    let ledger = Ledger::on(Product::Postgres).await;
    let store = ledger.store().open_postgres().await;
    let key = mark_key(&bed, CHARGE);
    let orders = async |ids: Range<u32>| {
        for id in ids {
            bed.order(&id.to_string()).await;
        }
    };
    let other = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.name = "other".into();
        settings.stream = true;
        change(settings);
    });
    let zombie = other.with(|settings| {
        settings.name = "zombie".into();
        settings.gate = gate.clone().map(|file| Gate {
            file,
            blocking: false,
        });
    });
    orders(0..3).await;
    let zombie = Process::start(LEDGER_WORKER, &zombie);
    match &gate {
        Some(_) => zombie.started().await,
        None => zombie.ended("executed", 3).await,
    }
    zombie.signal(Signal::SIGSTOP);
    orders(3..6).await;
    let other = Process::start(LEDGER_WORKER, &other);
    until_charged(&ledger, 6).await;
    until_mark(&store, &key, 6).await;

    if let Some(gate) = &gate {
        fs::write(gate, "open").unwrap();
    }
    zombie.signal(Signal::SIGCONT);
    let notices = |log: &[String]| {
        let mut lines = log.iter();
        lines.any(|line| line.contains("another worker reads the stream"))
    };
    zombie.log.until("it notices", notices).await;
    let looks = Instant::now() + Duration::from_secs(3);
    while Instant::now() < looks {
        assert_eq!(mark(&store, &key).await, Some(6));
        sleep(Duration::from_millis(20)).await;
    }
    orders(6..26).await;
    until_charged(&ledger, 26).await;
    other.stop().await;
    bed.order("last").await;
    until_charged(&ledger, 27).await;
    zombie.stop().await;
    let charges = ledger.charges().await;
    assert_eq!(charges.len(), 27, "{charges:?}");
    for charge in charges {
        let expected = match charge.order_id.parse::<u32>() {
            Ok(0..3) if gate.is_none() => "zombie",
            Ok(_) => "other",
            Err(_) => "zombie",
        };
        assert_eq!(charge.worker, expected, "{charge:?}");
    }
    until_mark(&store, &key, 27).await;
}

/// A worker that reads a stream is paused for longer than its claim, another one takes over, and the first goes on.
///
/// - does: the first moves no mark any more, neither by itself nor in its handler's transaction; it stands by, and reads
///   on when the other one stops
/// - effect: once each
#[tokio::test]
async fn a_reader_that_was_taken_over_moves_no_mark() {
    taken_over(|_| {}, None).await;
}

/// Shares the promise of `stream_faults::a_reader_that_was_taken_over_moves_no_mark`.
#[tokio::test]
async fn a_reader_without_records_that_was_taken_over_commits_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let by_mark = |settings: &mut Settings| {
        settings.mode = Mode::Batched;
        settings.keys = Keys::Places;
    };
    taken_over(by_mark, Some(folder.path().join("gate"))).await;
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
