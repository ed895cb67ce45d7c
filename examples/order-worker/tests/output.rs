//! A worker charges an order once, says what became of its copy, and stops when it is told to.

use std::{
    error::Error,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
};

use idem_amqp::{Publication, Publisher, Queue};
use idem_servers::example;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_order-worker");

/// Publishes the same order twice.
async fn publish(url: &str) -> Result<(), Box<dyn Error>> {
    let publisher = Publisher::connect(url).await?;
    publisher.declare("orders").await?;
    let order = json!({"order_id": "o-1", "customer": "ada", "amount_cents": 1299});
    for _ in 0..2 {
        publisher
            .publish(&Publication::json("orders", &order))
            .await?;
    }
    Ok(())
}

/// A worker that is killed if the test fails before it has stopped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_order_that_comes_twice_is_charged_once() {
    let url = example::vhost(PROGRAM);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(publish(&url)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("orders.db").display());

    let child = Command::new(PROGRAM)
        .env("AMQP_URL", &url)
        .env("STORE_URL", &store)
        .env("PREFETCH", "1")
        .env("WORKER_NAME", "w-1")
        .env("ORDERS_LOG", "json")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut worker = Running(child);
    let mut said = BufReader::new(worker.0.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    assert_eq!(next(), json!({"ready": true}));
    let ends = [next(), next()];
    let told = |name: &str| ends.each_ref().map(|end| end[name].clone());
    assert_eq!(told("outcome"), ["executed", "duplicate"]);
    assert_eq!(told("key"), ["orders.charge:o-1", "orders.charge:o-1"]);
    assert_eq!(told("settlement"), ["ack", "ack"]);

    let stop = Command::new("kill").arg(worker.0.id().to_string()).status();
    assert!(stop.unwrap().success());
    let summary = &next()["summary"];
    assert_eq!(summary["deliveries"], 2);
    assert_eq!(
        (&summary["executed"], &summary["duplicate"]),
        (&json!(1), &json!(1))
    );
    assert!(worker.0.wait().unwrap().success());
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");

    let ledger = example::run_with(PROGRAM, &["ledger"], &[("STORE_URL", &store)]);
    let charge: Value = serde_json::from_str(&ledger).expect("one line, for one charge");
    assert_eq!(charge["order_id"], "o-1");
    assert_eq!(charge["worker"], "w-1");
}

/// What a worker says on standard error at a broker that refuses it its queue.
fn complaint(url: &str, filter: Option<&str>) -> String {
    let mut worker = Command::new(PROGRAM);
    worker.env("AMQP_URL", url).env("STORE_URL", "memory:");
    worker.env("ORDERS_QUEUE", "refused");
    match filter {
        Some(filter) => worker.env("RUST_LOG", filter),
        None => worker.env_remove("RUST_LOG"),
    };
    let ended = worker.output().expect("it runs");
    assert!(!ended.status.success(), "{ended:?}");
    String::from_utf8(ended.stderr).expect("a log is text")
}

#[test]
fn what_the_broker_refuses_is_told_once_and_in_the_workers_words() {
    let url = example::vhost(PROGRAM);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let declared = async {
        let publisher = Publisher::connect(&*url).await?;
        publisher.declare(Queue::classic("refused")).await
    };
    runtime.block_on(declared).unwrap();

    let told = complaint(&url, None);
    assert!(
        told.contains("cannot be used: its `x-overflow` is not set"),
        "{told}"
    );
    assert!(!told.contains("lapin"), "{told}");
    // It would speak if it were let.
    let all = complaint(&url, Some("info"));
    let errors = all.lines().filter(|line| line.contains(" ERROR "));
    let errors: Vec<_> = errors.collect();
    assert!(errors.iter().any(|line| line.contains("lapin::")), "{all}");
}
