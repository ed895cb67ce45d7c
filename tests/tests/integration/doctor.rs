//! What the doctor finds on a real broker, and what keeps a worker from starting.

use std::{path::Path, time::Duration};

use idem_amqp::{
    Failed, MemoryStore, Queue, RunError, SqliteStore, Worker,
    executor::ExecutionKind as Kind,
    store::{Finding, Severity},
};
use idem_servers::rabbitmq::Version;
use idem_tests::{
    bed::{Bed, QUICK, dead},
    running::{Running, assert_balance},
    script::{Script, charge},
    servers::off_thread,
    store_at::StoreAt,
};
use lapin::{
    Connection, ConnectionProperties,
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable},
};
use tempfile::tempdir;

async fn sqlite(folder: &Path) -> SqliteStore {
    StoreAt::sqlite(&folder.join("keys.db")).open_sqlite().await
}

pub(crate) async fn doctor(url: &str, queue: impl Into<Queue>) -> Vec<Finding> {
    let folder = tempdir().unwrap();
    let worker = Worker::builder(sqlite(folder.path()).await).state(Script::succeeding());
    let worker = worker.consume::<charge>(queue).build(url).unwrap();
    worker.doctor().await
}

pub(crate) fn codes(findings: &[Finding]) -> Vec<(Severity, &str)> {
    let codes = findings.iter();
    codes
        .map(|finding| (finding.severity, finding.code))
        .collect()
}

fn start(bed: &Bed, queue: Queue, script: &Script) -> Running {
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    bed.start(worker.consume::<charge>(queue))
}

pub(crate) async fn why_unfit(bed: &Bed, queue: Queue) -> Vec<Finding> {
    match start(bed, queue, &Script::succeeding()).failed().await {
        RunError::Unfit { findings } => findings,
        other => panic!("{other:?}"),
    }
}

fn quorum<const N: usize>(further: [(&str, AMQPValue); N]) -> FieldTable {
    let mut table = FieldTable::default();
    table.insert(
        "x-queue-type".into(),
        AMQPValue::LongString("quorum".into()),
    );
    for (name, value) in further {
        table.insert(name.into(), value);
    }
    table
}

pub(crate) fn number(value: i64) -> AMQPValue {
    AMQPValue::LongLongInt(value)
}

pub(crate) fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

/// A queue and its dead-letter queue that somebody else has declared.
async fn foreign(arguments: FieldTable) -> Bed {
    let bed = Bed::bare().await;
    bed.declare_foreign(&dead(bed.name()), FieldTable::default())
        .await;
    bed.declare_foreign(bed.name(), arguments).await;
    bed
}

/// A queue has no fault.
///
/// - does: finds nothing
#[tokio::test]
async fn a_queue_that_the_worker_declares_is_well() {
    let bed = Bed::bare().await;
    assert_eq!(doctor(bed.url(), Queue::quorum(bed.name())).await, []);
    assert_eq!(bed.waiting(bed.name()).await, None, "it was declared");
}

/// Shares the promise of `doctor::a_queue_that_the_worker_declares_is_well`.
#[tokio::test]
async fn an_existing_queue_that_is_as_it_should_be_is_well() {
    let bed = Bed::new().await;
    assert_eq!(doctor(bed.url(), Queue::existing(bed.name())).await, []);
    bed.assert_nothing_stuck().await;
}

/// The limit, the age or the length of an existing queue drop messages, and it has no dead-letter exchange.
///
/// - does: reports an error, unless accepted; starts, because a policy may give it one
#[tokio::test]
async fn a_limit_that_loses_messages_is_found_out() {
    let bed = foreign(quorum([("x-delivery-limit", number(5))])).await;
    let found = doctor(bed.url(), Queue::existing(bed.name())).await;
    assert_eq!(codes(&found), [(Severity::Error, "delivery-limit")]);
    assert_eq!(found[0].subject.as_deref(), Some(bed.name()));
    let accepted = Queue::existing(bed.name()).accept("delivery-limit");
    let found = doctor(bed.url(), accepted).await;
    assert_eq!(codes(&found), [(Severity::Note, "delivery-limit")]);
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `doctor::a_limit_that_loses_messages_is_found_out`.
#[tokio::test]
async fn all_arguments_of_an_existing_queue_are_found_out() {
    let arguments = [
        ("x-delivery-limit", number(30)),
        ("x-message-ttl", number(60_000)),
        ("x-max-length", number(1000)),
        ("x-overflow", text("drop-head")),
        ("x-single-active-consumer", AMQPValue::Boolean(true)),
    ];
    let bed = foreign(quorum(arguments)).await;
    let found = doctor(bed.url(), Queue::existing(bed.name())).await;
    let mut codes = codes(&found);
    codes.sort_unstable();
    let expected = ["max-length", "message-ttl", "no-dead-letter-target"];
    assert_eq!(codes, expected.map(|code| (Severity::Error, code)));
    bed.assert_nothing_stuck().await;
}

/// A copy can come later than its key is remembered: from the ladder, out of a queue where it may lie for long, or
/// because an operator sends it again.
///
/// - does: reports a warning that says how late, and for which part of it the queue's limit and the replay window
///   stand; starts
#[tokio::test]
async fn a_retention_that_ends_before_the_last_copy_comes_is_found_out() {
    const DAY: Duration = Duration::from_hours(24);
    let two_days = [("x-message-ttl", number(2 * 24 * 3_600_000))];
    let (ttl, plain) = (foreign(quorum(two_days)).await, Bed::new().await);
    let remembers = |retention| QUICK.to_builder().retention(retention).build().unwrap();
    let existing = || Queue::existing(ttl.name()).accept("message-ttl");
    let ladder = || plain.queue();
    let (rungs, limit) = (
        "a copy of a message can come",
        "the queue's `x-message-ttl`",
    );
    let replays = "the replay window";
    for (bed, queue, retention, window, expected) in [
        (&plain, ladder(), 3 * DAY, Duration::ZERO, &[][..]),
        (&plain, ladder(), DAY / 24, Duration::ZERO, &[rungs]),
        (&plain, ladder(), DAY, 2 * DAY, &[replays]),
        (&ttl, existing(), 3 * DAY, Duration::ZERO, &[]),
        (&ttl, existing(), DAY, Duration::ZERO, &[limit]),
        (&ttl, existing(), 3 * DAY, 2 * DAY, &[limit, replays]),
    ] {
        let folder = tempdir().unwrap();
        let worker = Worker::builder(sqlite(folder.path()).await).replay_window(window);
        let queue = queue.policy(remembers(retention));
        let worker = worker.state(Script::succeeding()).consume::<charge>(queue);
        let found = worker.build(bed.url()).unwrap().doctor().await;
        let about = |finding: &&Finding| finding.code == "retention";
        let about: Vec<_> = found.iter().filter(about).collect();
        assert_eq!(about.len(), usize::from(!expected.is_empty()), "{found:?}");
        for finding in about {
            assert_eq!(finding.severity, Severity::Warning);
            for part in [rungs, limit, replays] {
                let says = finding.text.contains(part);
                let is_expected = part == rungs || expected.contains(&part);
                assert_eq!(says, is_expected, "{part}: {}", finding.text);
            }
        }
    }
    let short = ladder().policy(remembers(DAY / 24));
    let worker = start(&plain, short, &Script::succeeding());
    plain.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    worker.stop().await;
    ttl.assert_nothing_stuck().await;
    plain.assert_nothing_stuck().await;
}

/// The queue does not exist.
///
/// - does: says so, creates nothing
#[tokio::test]
async fn a_queue_that_does_not_exist_is_not_created_by_looking() {
    let bed = Bed::bare().await;
    let found = doctor(bed.url(), Queue::existing(bed.name())).await;
    assert_eq!(codes(&found), [(Severity::Error, "missing"); 2]);
    for (missing, name) in found.iter().zip([bed.name(), &dead(bed.name())]) {
        assert!(missing.text.contains(&format!("`{name}`")), "{missing:?}");
        assert_eq!(bed.waiting(name).await, None, "it was declared");
    }
}

/// The user may not look at a queue.
///
/// - does: says so
#[tokio::test]
async fn a_queue_that_may_not_be_looked_at_is_said_to_be_hidden() {
    let bed = foreign(quorum([])).await;
    let (broker, user) = (bed.broker().clone(), bed.name().to_owned());
    off_thread(move || {
        broker.rabbitmqctl(["add_user", &user, "secret"])?;
        broker.rabbitmqctl(["set_permissions", &user, "^$", ".*", ".*"])
    })
    .await;
    let own = format!("{}:secret", bed.name());
    let url = bed.url().replace("guest:guest", &own);
    let found = doctor(&url, Queue::existing(bed.name())).await;
    // And so may its dead-letter queue.
    assert_eq!(codes(&found), [(Severity::Note, "hidden"); 2]);
    bed.assert_nothing_stuck().await;
}

/// The broker cannot be reached.
///
/// - does: reports it as a finding
#[tokio::test]
async fn a_broker_that_cannot_be_reached_is_a_finding() {
    let nowhere = "amqp://guest:guest@127.0.0.1:1/%2f";
    let unreachable = (Severity::Error, "broker-unreachable");
    let found = doctor(nowhere, "orders").await;
    assert_eq!(codes(&found), [unreachable]);
    let found = doctor(nowhere, Queue::existing("orders")).await;
    assert_eq!(codes(&found), [unreachable, (Severity::Note, "hidden")]);
}

/// The store's settings forget keys.
///
/// - does: reports it as a finding
#[tokio::test]
async fn what_the_store_finds_out_is_among_the_findings() {
    let bed = Bed::bare().await;
    let store = StoreAt::redis().await.open_redis().await;
    let of_store = store.findings().await.unwrap();
    let worker = Worker::builder(store).state(Script::succeeding());
    let worker = worker.consume::<charge>(bed.queue()).build(bed.url());
    assert_eq!(worker.unwrap().doctor().await, of_store);
    let worker = Worker::builder(MemoryStore::new()).state(Script::succeeding());
    let worker = worker.consume::<charge>(bed.queue()).build(bed.url());
    let found = worker.unwrap().doctor().await;
    assert_eq!(codes(&found), [(Severity::Warning, "memory-store")]);
}

/// An existing queue is a stream.
///
/// - does: does not start
#[tokio::test]
async fn a_stream_keeps_a_worker_from_starting() {
    let bed = Bed::bare().await;
    let mut stream = FieldTable::default();
    stream.insert("x-queue-type".into(), text("stream"));
    bed.declare_foreign(bed.name(), stream).await;
    let found = why_unfit(&bed, Queue::existing(bed.name())).await;
    assert_eq!(codes(&found), [(Severity::Error, "stream")]);
    bed.delete(bed.name()).await;
}

/// An existing queue is deleted with its last consumer.
///
/// - does: does not start, unless that is accepted
#[tokio::test]
async fn a_queue_that_ends_with_its_worker_keeps_it_from_starting_unless_that_is_accepted() {
    let bed = Bed::bare().await;
    bed.declare_foreign(&dead(bed.name()), FieldTable::default())
        .await;
    let connection = Connection::connect(bed.url(), ConnectionProperties::default());
    let connection = connection.await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let options = QueueDeclareOptions {
        durable: true,
        auto_delete: true,
        ..QueueDeclareOptions::default()
    };
    let declared = channel.queue_declare(bed.name().into(), options, FieldTable::default());
    declared.await.unwrap();
    let found = why_unfit(&bed, Queue::existing(bed.name())).await;
    assert_eq!(codes(&found), [(Severity::Error, "auto-delete")]);

    let script = Script::succeeding();
    let accepted = Queue::existing(bed.name()).accept("auto-delete");
    let worker = start(&bed, accepted, &script);
    bed.until_consumed(bed.name(), 1).await;
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    bed.assert_nothing_stuck().await;
}

/// The queue is to delay retries, and the broker cannot.
///
/// - does: does not start
#[tokio::test]
async fn delays_that_the_broker_does_not_know_keep_a_worker_from_starting() {
    let bed = Bed::bare().await;
    let delays = Duration::from_millis(100);
    // Of the one type that has them.
    let queue = Queue::quorum(bed.name()).policy(QUICK);
    let queue = queue.native_retries(delays, delays);
    if bed.broker().version() < Version::new(4, 3) {
        let found = why_unfit(&bed, queue).await;
        assert_eq!(codes(&found), [(Severity::Error, "native-retries")]);
    } else {
        assert_eq!(doctor(bed.url(), queue).await, []);
    }
}

/// An existing queue returns a message less often than its handler fails.
///
/// - does: keeps it in the worker when the limit is close
/// - atomic: runs on
/// - leased: runs on
#[tokio::test]
async fn a_message_is_not_returned_so_often_that_an_existing_queue_drops_it() {
    let bed = foreign(quorum([("x-delivery-limit", number(4))])).await;
    let script = Script::new(async |call| match call.attempt {
        1..=7 => Err(Failed::retry("the gateway timed out")),
        _ => Ok(()),
    });
    let patient = QUICK.to_builder().max_attempts(8).build().unwrap();
    let queue = Queue::existing(bed.name()).policy(patient);
    let worker = start(&bed, queue, &script);
    bed.until_consumed(bed.name(), 1).await;
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    worker.stop().await;
    assert_eq!(script.attempts(), [1, 2, 3, 4, 5, 6, 7, 8]);
    bed.assert_nothing_stuck().await;
}
