//! Postings of which some come twice are booked once, from a stream, and the service stops when it is told to.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use idem_amqp::{Publication, Publisher, Queue};
use idem_servers::example;
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ledger");

async fn publish(url: &str) -> Result<(), Box<dyn std::error::Error>> {
    let publisher = Publisher::connect(url).await?;
    publisher.declare(Queue::stream("ledger")).await?;
    for (posting_id, cents) in [("p-1", 500), ("p-2", -200), ("p-1", 500)] {
        let posting = json!({"posting_id": posting_id, "account": "ada", "cents": cents});
        let posting = Publication::json("ledger", &posting);
        publisher.publish(&posting).await?;
    }
    Ok(())
}

/// Books until it has said so many lines, and is told to stop.
fn book(variables: &[(&str, &str)], lines: usize) -> (Vec<String>, Vec<String>) {
    let mut process = Command::new(PROGRAM)
        .arg("book")
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let said = BufReader::new(process.stdout.take().expect("it is piped")).lines();
    let mut said = said.map(Result::unwrap);
    let mut booked: Vec<_> = said.by_ref().take(lines).collect();
    booked.sort();
    let id = process.id().to_string();
    let told = Command::new("kill").arg(id).status();
    assert!(told.expect("`kill` of the coreutils").success());
    let rest = said.collect();
    assert!(process.wait().expect("it ends").success());
    (booked, rest)
}

#[test]
fn each_posting_is_booked_once_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("ledger.db").display());
    assert_booked_once(&store);
}

#[cfg(feature = "postgres")]
#[test]
fn each_posting_is_booked_once_in_postgres() {
    let server = idem_servers::postgres::shared().expect("it can be installed");
    server.drop_database("ledger").expect("it is up");
    assert_booked_once(&server.create_database("ledger").expect("it is new"));
}

fn assert_booked_once(store: &str) {
    let url = example::vhost(PROGRAM);
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(publish(&url)).expect("a broker");
    let variables = [("AMQP_URL", &*url), ("STORE_URL", store)];

    let (booked, done) = book(&variables, 3);
    let expected = [
        "duplicate    ledger.book:p-1",
        "executed     ledger.book:p-1",
        "executed     ledger.book:p-2",
    ];
    assert_eq!(booked, expected);
    assert_eq!(done, ["done: deliveries=3 executed=2 duplicate=1"]);

    let ledger = example::run_with(PROGRAM, &["ledger"], &variables);
    let expected = "\
{\"account\":\"ada\",\"balance\":300,\"booked\":1,\"cents\":500,\"posting_id\":\"p-1\"}
{\"account\":\"ada\",\"balance\":300,\"booked\":1,\"cents\":-200,\"posting_id\":\"p-2\"}
";
    assert_eq!(ledger, expected);
}
