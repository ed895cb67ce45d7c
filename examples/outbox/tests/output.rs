//! Orders of which each comes twice are charged once and shipped once, and the services stop when they are told to.

use std::{
    io::{BufRead as _, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
};

use idem_amqp::{Publication, Publisher};
use idem_servers::example;
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_outbox");

async fn publish(url: &str) -> Result<(), Box<dyn std::error::Error>> {
    let publisher = Publisher::connect(url).await?;
    publisher.declare("orders").await?;
    for order_id in ["o-1", "o-2", "o-1", "o-2"] {
        let order = json!({"order_id": order_id, "customer": "ada", "amount_cents": 1299});
        publisher
            .publish(&Publication::json("orders", &order))
            .await?;
    }
    Ok(())
}

/// A service that is killed if the test fails before it has stopped.
struct Running {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(command: &str, variables: &[(&str, &str)]) -> Self {
        let mut process = Command::new(PROGRAM)
            .arg(command)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        Self { process, lines }
    }

    /// So many lines, in the order of the alphabet.
    fn says(&mut self, lines: usize) -> Vec<String> {
        let mut said: Vec<_> = self
            .lines
            .by_ref()
            .take(lines)
            .map(Result::unwrap)
            .collect();
        said.sort();
        said
    }

    /// What it says when it is told to stop.
    fn stop(mut self) -> Vec<String> {
        let id = self.process.id().to_string();
        let told = Command::new("kill").arg(id).status();
        assert!(told.expect("`kill` of the coreutils").success());
        let said = self.says(usize::MAX);
        assert!(self.process.wait().expect("it ends").success());
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn each_order_is_charged_once_and_shipped_once() {
    let url = example::vhost(PROGRAM);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(publish(&url)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("shop.db").display());
    let variables = [("AMQP_URL", &*url), ("STORE_URL", &*store)];

    let mut charge = Running::start("charge", &variables);
    let charged = [
        "duplicate    orders.charge:o-1",
        "duplicate    orders.charge:o-2",
        "executed     orders.charge:o-1",
        "executed     orders.charge:o-2",
    ];
    assert_eq!(charge.says(4), charged);
    let mut ship = Running::start("ship", &variables);
    let shipped = [
        "executed     orders.ship:o-1",
        "executed     orders.ship:o-2",
    ];
    assert_eq!(ship.says(2), shipped);
    let done = "done: deliveries=4 executed=2 duplicate=2 outbox: committed=2 confirmed=2";
    assert_eq!(charge.stop(), [done]);
    assert_eq!(ship.stop(), ["done: deliveries=2 executed=2"]);

    let ledger = example::run_with(PROGRAM, &["ledger"], &variables);
    let expected = "\
{\"charges\":1,\"order_id\":\"o-1\",\"shipments\":1}
{\"charges\":1,\"order_id\":\"o-2\",\"shipments\":1}
";
    assert_eq!(ledger, expected);
}
