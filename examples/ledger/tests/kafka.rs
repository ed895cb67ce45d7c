//! Postings from Kafka, some of which come twice, are booked once, though the service is killed in the middle.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    io::{BufRead as _, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use idem_servers::example;
use rdkafka::{
    ClientConfig,
    mocking::MockCluster,
    producer::{FutureProducer, FutureRecord},
};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ledger");
const POSTINGS: usize = 200;
const PATIENCE: Duration = Duration::from_mins(2);

fn book(variables: &[(&str, &str)]) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut process = Command::new(PROGRAM)
        .arg("book")
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let said = BufReader::new(process.stdout.take().expect("it is piped")).lines();
    (process, said)
}

fn ledger(variables: &[(&str, &str)]) -> Vec<Value> {
    let ledger = example::run_with(PROGRAM, &["ledger"], variables);
    let rows = ledger.lines().map(serde_json::from_str);
    rows.collect::<Result<_, _>>().unwrap()
}

fn publish(servers: &str) {
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .create()
        .unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        for number in (0..POSTINGS).flat_map(|number| [number, number / 2]) {
            let posting =
                json!({"posting_id": format!("p-{number}"), "account": "ada", "cents": number})
                    .to_string();
            let record = FutureRecord::<str, str>::to("ledger")
                .partition(0)
                .payload(&posting);
            producer
                .send(record, Duration::from_secs(30))
                .await
                .unwrap();
        }
    });
}

#[test]
fn each_posting_is_booked_once_though_the_service_is_killed() {
    let kafka = MockCluster::new(1).unwrap();
    kafka.create_topic("ledger", 1, 1).unwrap();
    kafka.create_topic("ledger.dead", 1, 1).unwrap();
    let servers = kafka.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("ledger.db").display());
    let variables = [("KAFKA_URL", &*servers), ("STORE_URL", &*store)];
    publish(&servers);

    let (mut killed, said) = book(&variables);
    assert_eq!(said.take(POSTINGS / 3).count(), POSTINGS / 3);
    killed.kill().unwrap();
    killed.wait().unwrap();

    let (mut process, said) = book(&variables);
    let began = Instant::now();
    let mut rows = Vec::new();
    while rows.len() < POSTINGS {
        assert!(
            began.elapsed() < PATIENCE,
            "{} postings are booked",
            rows.len()
        );
        rows = ledger(&variables);
    }
    let told = Command::new("kill").arg(process.id().to_string()).status();
    assert!(told.expect("`kill` of the coreutils").success());
    let rest: Vec<_> = said.map(Result::unwrap).collect();
    assert!(rest.last().unwrap().starts_with("done: "), "{rest:?}");
    assert!(process.wait().expect("it ends").success());

    let sum = POSTINGS * (POSTINGS - 1) / 2;
    for row in ledger(&variables) {
        assert_eq!((&row["booked"], &row["balance"]), (&json!(1), &json!(sum)));
    }
}
