//! mq-bridge consumes a small queue with each of its stores, and is caught if it leaves something out.

use std::process::{Command, Output};

use bench_driver::consume::{Finish, QueueKind};
use bench_orders::{Place, fill};
use idem_servers::{postgres, rabbitmq};

const MESSAGES: usize = 2_000;
/// A tenth of the messages are copies.
const ORDERS: u32 = 1_800;

fn place(queue: &str, messages: usize) -> Place {
    let broker = rabbitmq::shared().expect("it can be installed");
    Place {
        amqp_url: broker.amqp_url(),
        queue: queue.to_owned(),
        messages,
        duplicates: Place::COPIES,
    }
}

fn consume(place: &Place, contestant: &str, more: &[&str]) -> Output {
    let messages = MESSAGES.to_string();
    Command::new(env!("CARGO_BIN_EXE_bench-mq-bridge"))
        .args(["consume", "--amqp-url", &place.amqp_url])
        .args(["--queue", &place.queue, "--messages", &messages])
        .args(["--prefetch", "256", "--contestant", contestant])
        .args(more)
        .output()
        .expect("it starts")
}

fn new_database(name: &str) -> String {
    let server = postgres::shared().expect("it can be installed");
    server.drop_database(name).expect("it is up");
    server.create_database(name).expect("it is new")
}

fn complaint(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

async fn executes_each_order_once(contestant: &str, more: &[&str]) {
    let place = place(&format!("bench-{contestant}"), MESSAGES);
    fill(&place, QueueKind::Classic).await.expect("it is taken");
    let output = consume(&place, contestant, more);
    assert!(output.status.success(), "{}", complaint(&output));
    let finish: Finish = serde_json::from_slice(&output.stdout).expect("a finish");
    assert_eq!(finish.executions, ORDERS);
    assert!(finish.seconds > 0.0);
}

#[tokio::test]
async fn with_keys_in_memory_each_order_is_executed_once() {
    executes_each_order_once("mq-bridge-memory", &[]).await;
}

#[tokio::test]
async fn with_keys_in_sqlite_each_order_is_executed_once() {
    executes_each_order_once("mq-bridge-sqlite", &[]).await;
}

#[tokio::test]
async fn with_keys_in_postgres_each_order_is_executed_once() {
    let url = new_database("bench_mq_bridge");
    executes_each_order_once("mq-bridge-postgres", &["--store-url", &url]).await;
}

#[tokio::test]
async fn an_order_that_is_not_executed_is_noticed() {
    let url = new_database("bench_mq_bridge_again");
    let store = ["--store-url", &url];
    let place = place("bench-again", MESSAGES);
    fill(&place, QueueKind::Classic).await.expect("it is taken");
    let first = consume(&place, "mq-bridge-postgres", &store);
    assert!(first.status.success(), "{}", complaint(&first));
    fill(&place, QueueKind::Classic).await.expect("it is taken");
    let complaint = complaint(&consume(&place, "mq-bridge-postgres", &store));
    assert!(
        complaint.contains("was executed 0 times instead of 1"),
        "{complaint}"
    );
}

#[tokio::test]
async fn a_quorum_queue_is_refused_by_the_broker() {
    let place = place("bench-quorum", MESSAGES);
    fill(&place, QueueKind::Quorum).await.expect("it is taken");
    let complaint = complaint(&consume(&place, "mq-bridge-memory", &[]));
    assert!(
        complaint.contains("inequivalent arg 'x-queue-type'"),
        "{complaint}"
    );
}
