//! Every contestant consumes a small queue, and is caught if it leaves something behind.

mod scale;

use std::process::{Command, Output};

use bench_driver::{
    StoreKind,
    consume::{Contestant, Finish, QueueKind},
    latency::Delays,
};
use clap::ValueEnum as _;
use idem_servers::{Redis, postgres, rabbitmq};

const MESSAGES: u32 = 200;
/// A tenth of the messages are copies.
const ORDERS: u32 = 180;

fn run(what: &str, queue: &str, more: &[&str]) -> Output {
    let broker = rabbitmq::shared().expect("it can be installed");
    Command::new(env!("CARGO_BIN_EXE_bench-consume"))
        .args([what, "--amqp-url", &broker.amqp_url(), "--queue", queue])
        .args(more)
        .output()
        .expect("it starts")
}

fn fill(queue: &str, kind: QueueKind, messages: u32) {
    let messages = messages.to_string();
    let filled = run(
        "load",
        queue,
        &["--kind", kind.name(), "--messages", &messages],
    );
    assert!(filled.status.success(), "{}", complaint(&filled));
}

fn consume(queue: &str, contestant: &str, more: &[&str]) -> Output {
    let messages = MESSAGES.to_string();
    let arguments = [
        "--prefetch",
        "32",
        "--messages",
        &messages,
        "--contestant",
        contestant,
    ];
    run("consume", queue, &[&arguments, more].concat())
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A queue of each type, with a store that knows nothing yet.
fn assert_consumes(
    contestant: Contestant,
    name: &str,
    mut store_url: impl FnMut() -> Option<String>,
) {
    for kind in [QueueKind::Classic, QueueKind::Quorum] {
        let finish = finish(name, kind, "10", store_url().as_deref());
        let expected = if contestant.deduplicates() {
            ORDERS
        } else {
            MESSAGES
        };
        assert_eq!(finish.executions, expected, "{name}");
        assert!(finish.seconds > 0.0, "{name}");
    }
}

/// A queue of this kind, with so many copies of a hundred messages.
fn finish(name: &str, kind: QueueKind, copies: &str, store_url: Option<&str>) -> Finish {
    let (queue, messages) = (
        format!("bench-{name}-{}", kind.name()),
        MESSAGES.to_string(),
    );
    let kind = ["--kind", kind.name(), "--duplicates", copies];
    let filled = run(
        "load",
        &queue,
        &[&kind[..], &["--messages", &messages]].concat(),
    );
    assert!(filled.status.success(), "{}", complaint(&filled));
    let url = store_url.iter().flat_map(|url| ["--store-url", url]);
    let output = consume(
        &queue,
        name,
        &[&kind[..], &url.collect::<Vec<_>>()].concat(),
    );
    assert!(output.status.success(), "{name}: {}", complaint(&output));
    serde_json::from_slice(&output.stdout).expect("a finish")
}

#[test]
fn who_reads_a_stream_executes_each_of_its_orders_once() {
    let server = postgres::shared().expect("it can be installed");
    let redis = Redis::start().expect("it can be installed");
    let folder = tempfile::tempdir().expect("there is room");
    let readers = Contestant::value_variants().iter();
    for reader in readers.filter(|reader| reader.cannot(QueueKind::Stream).is_none()) {
        let name = reader.name();
        let url = match reader.server() {
            Some(StoreKind::Postgres) => {
                server.drop_database("bench_stream").expect("it is up");
                Some(server.create_database("bench_stream").expect("it is new"))
            }
            Some(StoreKind::Redis) => {
                redis.ask(["FLUSHALL"]).expect("it is up");
                Some(redis.url())
            }
            Some(StoreKind::Sqlite) => {
                Some(format!("sqlite:{}/{name}.db", folder.path().display()))
            }
            _ => None,
        };
        let finish = finish(&name, QueueKind::Stream, "0", url.as_deref());
        assert_eq!(finish.executions, MESSAGES, "{name}");
    }
}

#[test]
fn who_forgets_executes_every_copy() {
    assert_consumes(Contestant::LapinAckEach, "lapin-ack-each", || None);
    assert_consumes(Contestant::LapinTaskEach, "lapin-task-each", || None);
    assert_consumes(Contestant::LapinNoAck, "lapin-no-ack", || None);
    assert_consumes(Contestant::LapinAckTogether, "lapin-ack-together", || None);
    assert_consumes(Contestant::AmqprsAckEach, "amqprs-ack-each", || None);
}

#[test]
fn who_remembers_without_a_server_executes_each_order_once() {
    assert_consumes(Contestant::IdemMemory, "idem-memory", || None);
    assert_consumes(Contestant::IdemMemoryOrdered, "idem-memory-ordered", || {
        None
    });
    assert_consumes(Contestant::IdemSqlite, "idem-sqlite", || None);
    assert_consumes(Contestant::IdemMemoryBatch, "idem-memory-batch", || None);
    let folder = tempfile::tempdir().expect("there is room");
    let mut files = 0;
    let mut file = || {
        files += 1;
        Some(format!("sqlite:{}/{files}.db", folder.path().display()))
    };
    let by_hand = Contestant::HandwrittenSqliteAtomic;
    assert_consumes(by_hand, "handwritten-sqlite-atomic", &mut file);
    let by_hand = Contestant::HandwrittenSqliteSavepoints;
    assert_consumes(by_hand, "handwritten-sqlite-savepoints", &mut file);
    assert_consumes(
        Contestant::IdemSqliteAtomic,
        "idem-sqlite-atomic",
        &mut file,
    );
    assert_consumes(Contestant::IdemSqliteBatch, "idem-sqlite-batch", &mut file);
}

#[test]
fn who_remembers_in_redis_executes_each_order_once() {
    let redis = Redis::start().expect("it can be installed");
    let empty = || {
        redis.ask(["FLUSHALL"]).expect("it is up");
        Some(redis.url())
    };
    assert_consumes(Contestant::NaiveRedis, "naive-redis", empty);
    assert_consumes(Contestant::IdemRedis, "idem-redis", empty);
    assert_consumes(Contestant::IdemRedisBatch, "idem-redis-batch", empty);
}

#[test]
fn who_remembers_in_postgres_executes_each_order_once() {
    let server = postgres::shared().expect("it can be installed");
    let empty = || {
        server.drop_database("bench_consume").expect("it is up");
        Some(server.create_database("bench_consume").expect("it is new"))
    };
    assert_consumes(Contestant::NaivePostgres, "naive-postgres", empty);
    let by_hand = Contestant::HandwrittenPostgresAtomic;
    assert_consumes(by_hand, "handwritten-postgres-atomic", empty);
    assert_consumes(Contestant::IdemPostgres, "idem-postgres", empty);
    assert_consumes(
        Contestant::IdemPostgresOrdered,
        "idem-postgres-ordered",
        empty,
    );
    assert_consumes(
        Contestant::IdemPostgresAtomic,
        "idem-postgres-atomic",
        empty,
    );
    assert_consumes(
        Contestant::IdemPostgresGrouped,
        "idem-postgres-grouped",
        empty,
    );
    assert_consumes(Contestant::IdemPostgresBatch, "idem-postgres-batch", empty);
    for (by_hand, name) in [
        (
            Contestant::HandwrittenPostgresSetwise64,
            "handwritten-postgres-setwise-64",
        ),
        (
            Contestant::HandwrittenPostgresSetwise,
            "handwritten-postgres-setwise",
        ),
        (
            Contestant::HandwrittenPostgresSavepoints,
            "handwritten-postgres-savepoints",
        ),
    ] {
        assert_consumes(by_hand, name, empty);
    }
}

#[test]
fn a_message_that_is_left_behind_is_noticed() {
    fill("bench-left", QueueKind::Classic, MESSAGES + 10);
    let output = consume("bench-left", "lapin-ack-each", &[]);
    assert!(!output.status.success());
    let complaint = complaint(&output);
    assert!(
        complaint.contains("10 messages were not acknowledged"),
        "{complaint}"
    );
}

#[test]
fn an_order_that_is_not_executed_is_noticed() {
    let redis = Redis::start().expect("it can be installed");
    fill("bench-done", QueueKind::Classic, MESSAGES);
    let first = consume("bench-done", "naive-redis", &["--store-url", &redis.url()]);
    assert!(first.status.success(), "{}", complaint(&first));
    fill("bench-done", QueueKind::Classic, MESSAGES);
    let again = consume("bench-done", "naive-redis", &["--store-url", &redis.url()]);
    assert!(!again.status.success());
    let complaint = complaint(&again);
    assert!(
        complaint.contains("was executed 0 times instead of 1"),
        "{complaint}"
    );
}

/// What it tells of messages of which each takes some time.
fn delays(what: &str, contestant: &str, more: &[&str]) -> Delays {
    let queue = format!("bench-{what}-{contestant}");
    let arguments = ["--prefetch", "32", "--contestant", contestant];
    let output = run(what, &queue, &[&arguments, more].concat());
    assert!(
        output.status.success(),
        "{contestant}: {}",
        complaint(&output)
    );
    serde_json::from_slice(&output.stdout).expect("delays")
}

#[test]
fn each_message_takes_its_time_alone_and_under_load() {
    for contestant in ["lapin-task-each", "idem-memory", "idem-sqlite"] {
        for more in [
            &["--messages", "20"][..],
            &["--messages", "200", "--rate", "400"],
        ] {
            let Delays { p50, p99 } = delays("latency", contestant, more);
            assert!(0.0 < p50 && p50 <= p99, "{contestant}: {p50} {p99}");
        }
    }
}

#[test]
fn a_store_takes_its_time_by_itself() {
    let Delays { p50, p99 } = delays("store", "idem-sqlite", &["--messages", "20"]);
    assert!(0.0 < p50 && p50 <= p99, "{p50} {p99}");
}

/// What it tells, if it succeeds.
fn told<T: serde::de::DeserializeOwned>(what: &str, queue: &str, more: &[&str]) -> T {
    let output = run(what, queue, &[&["--prefetch", "32"], more].concat());
    assert!(output.status.success(), "{what}: {}", complaint(&output));
    serde_json::from_slice(&output.stdout).expect("what it measured")
}

#[test]
fn a_handler_takes_the_time_that_it_is_told_to() {
    fill("bench-handler", QueueKind::Classic, MESSAGES);
    let more = [
        "--messages",
        "200",
        "--contestant",
        "lapin-ack-each",
        "--handler-ms",
        "5",
    ];
    let finish: Finish = told("consume", "bench-handler", &more);
    assert!(finish.seconds >= 1.0, "{}", finish.seconds);
}

#[test]
fn a_queue_without_copies_is_filled_when_it_is_asked_for() {
    let without = ["--messages", "200", "--duplicates", "0"];
    let kind = ["--kind", "classic"];
    let filled = run("load", "bench-new", &[&without[..], &kind].concat());
    assert!(filled.status.success(), "{}", complaint(&filled));
    let more = [&without[..], &["--contestant", "idem-memory"]].concat();
    let finish: Finish = told("consume", "bench-new", &more);
    assert_eq!(finish.executions, 200);
}
