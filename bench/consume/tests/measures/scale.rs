//! What `cargo xtask bench scale` asks for.

use std::process::Command;

use bench_driver::{
    consume::QueueKind,
    scale::{Forgetting, Together},
};
use idem_servers::{Redis, postgres};

use super::{MESSAGES, complaint, consume, fill, run, told};

#[test]
fn several_workers_execute_each_order_once_together() {
    let server = postgres::shared().expect("it can be installed");
    let redis = Redis::start().expect("it can be installed");
    for contestant in ["idem-redis", "idem-postgres", "idem-postgres-atomic"] {
        server.drop_database("bench_workers").expect("it is up");
        let database = server.create_database("bench_workers");
        let url = match contestant {
            "idem-redis" => redis.url(),
            _ => database.expect("it is new"),
        };
        let queue = format!("bench-workers-{contestant}");
        fill(&queue, QueueKind::Classic, 2_000);
        let more = ["--contestant", contestant, "--store-url", &url];
        let more = [&more[..], &["--messages", "2000", "--workers", "3"]].concat();
        let together: Together = told("workers", &queue, &more);
        assert_eq!(together.executions.len(), 3, "{contestant}");
        assert_eq!(
            together.executions.iter().sum::<u32>(),
            1_800,
            "{contestant}"
        );
        assert!(together.seconds > 0.0, "{contestant}");
        assert!(together.peak_bytes.iter().all(|bytes| *bytes > 1 << 20));
    }
}

#[test]
fn orders_that_are_not_executed_together_are_noticed() {
    let redis = Redis::start().expect("it can be installed");
    let url = redis.url();
    let more = ["--contestant", "idem-redis", "--store-url", &url];
    let more = [&more[..], &["--messages", "200", "--workers", "2"]].concat();
    fill("bench-again", QueueKind::Classic, MESSAGES);
    let _: Together = told("workers", "bench-again", &more);
    fill("bench-again", QueueKind::Classic, MESSAGES);
    let again = run(
        "workers",
        "bench-again",
        &[&["--prefetch", "32"], &more[..]].concat(),
    );
    assert!(!again.status.success());
    let complaint = complaint(&again);
    assert!(
        complaint.contains("was executed 0 times instead of 1"),
        "{complaint}"
    );
}

#[test]
fn an_idle_worker_occupies_memory_and_takes_no_time() {
    fill("bench-idle", QueueKind::Classic, 0);
    let more = [
        "--contestant",
        "idem-memory",
        "--messages",
        "0",
        "--workers",
        "1",
    ];
    let together: Together = told("workers", "bench-idle", &more);
    assert_eq!(together.executions, [0]);
    assert!(together.seconds < 1e-9 && together.peak_bytes[0] > 1 << 20);
}

#[test]
fn orders_are_consumed_beside_records_of_yesterday_again_and_again() {
    let server = postgres::shared().expect("it can be installed");
    let url = server.create_database("bench_records").expect("it is new");
    let fill_table = ["fill", "--store-url", &url, "--records", "1000"];
    let filled = Command::new(env!("CARGO_BIN_EXE_bench-consume"))
        .args(fill_table)
        .output()
        .expect("it starts");
    assert!(filled.status.success(), "{}", complaint(&filled));
    let count = || server.query("bench_records", "SELECT count(*) FROM idem_records");
    for _ in 0..2 {
        fill("bench-records", QueueKind::Classic, MESSAGES);
        let output = consume("bench-records", "idem-postgres", &["--store-url", &url]);
        assert!(output.status.success(), "{}", complaint(&output));
        assert_eq!(count().expect("it is up").trim(), "1180");
        let forget = ["--messages", "200", "--store-url", &url];
        let forgotten = run("forget", "bench-records", &forget);
        assert!(forgotten.status.success(), "{}", complaint(&forgotten));
        assert_eq!(count().expect("it is up").trim(), "1000");
    }
}

#[test]
fn what_need_not_be_remembered_is_counted() {
    let server = postgres::shared().expect("it can be installed");
    for (name, purges) in [
        ("bench_kept", &["--held"][..]),
        ("bench_purged", &["--purgers", "3"]),
    ] {
        let url = server.create_database(name).expect("it is new");
        let without = ["--messages", "200", "--duplicates", "0"];
        let kind = ["--kind", "classic"];
        let filled = run("load", name, &[&without[..], &kind].concat());
        assert!(filled.status.success(), "{}", complaint(&filled));
        let store = ["--contestant", "idem-postgres", "--store-url", &url];
        let more = [&without[..], &store, purges].concat();
        let forgetting: Forgetting = told("purge", name, &more);
        assert_eq!(forgetting.messages, 200);
        assert!(!forgetting.backlog.is_empty());
    }
}
