//! A ledger: postings from a stream of RabbitMQ, or from Kafka, become balances, each posting once.
//!
//! Kill it at any moment (`kill -9`) and start it again, or let it read the stream again from its beginning: the
//! balances are right.
//!
//! ```sh
//! cargo run -p ledger -- book     # books until ctrl-c or SIGTERM
//! cargo run -p ledger -- ledger   # prints for each posting how often it was booked, and the balance of its account
//! ```
//!
//! | variable | default | |
//! |---|---|---|
//! | `AMQP_URL` | `amqp://127.0.0.1:5672/%2f` | the broker |
//! | `STORE_URL` | `sqlite:ledger.db` | `sqlite:FILE`, or `postgres://…` with the feature `postgres` |
//! | `STREAM` | `ledger` | the stream, or the topic |
//! | `PARTITIONS` | | how many partitions a super stream has, which several services share; a stream without. A topic has its own |
//! | `KAFKA_URL` | | with the feature `kafka`: Kafka's bootstrap servers, and nothing is read from RabbitMQ. What fails goes to the topic `<STREAM>.dead` |
//!
//! A posting is JSON: `{"posting_id": "p-1", "account": "ada", "cents": 1299}`.

use std::{env, process::ExitCode, time::Duration};

use idem_amqp::{
    Key, Queue, Worker,
    error::ErrorChain,
    executor::{ExecutionKind, RunsOn},
    handler::Handler,
    shutdown_signal,
    store::{Purge, StreamStore},
    worker::Settled,
};
use serde::Deserialize;
use tracing_subscriber::EnvFilter;

#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Deserialize)]
struct PostingMade {
    posting_id: String,
    account: String,
    cents: i64,
}

#[derive(Debug, Clone, Copy)]
enum Command {
    Book,
    Ledger,
}

/// For each posting its account, its cents, how often it was booked, and the balance of the account.
const SELECT_LEDGER: &str = "
SELECT posting_id, account, CAST(sum(postings.cents) AS bigint), count(*), max(balances.cents)
FROM postings JOIN balances USING (account)
GROUP BY posting_id, account ORDER BY posting_id";

type Row = (String, String, i64, i64, i64);

#[tokio::main]
async fn main() -> ExitCode {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,lapin=off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ledger: {}", ErrorChain::of(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Error> {
    let command = match env::args().nth(1).as_deref() {
        Some("book") => Command::Book,
        Some("ledger") => Command::Ledger,
        _ => return Err("say what to do: `book` or `ledger`".into()),
    };
    let store_url = variable("STORE_URL", "sqlite:ledger.db");
    match store_url.split(':').next() {
        #[cfg(feature = "sqlite")]
        Some("sqlite") => sqlite::run(command, &store_url).await,
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => postgres::run(command, &store_url).await,
        _ => Err(format!(
            "STORE_URL `{store_url}`: postings commit together with their records in `sqlite:` and `postgres:`, where compiled in"
        )
        .into()),
    }
}

/// What is the same for each store.
async fn serve<H, S>(store: S) -> Result<(), Error>
where
    H: Handler<()>,
    H::Mode: RunsOn<S>,
    S: StreamStore + Purge + Clone,
{
    #[cfg(feature = "kafka")]
    if let Ok(servers) = env::var("KAFKA_URL") {
        return kafka::serve::<H, S>(store, servers).await;
    }
    let amqp_url = variable("AMQP_URL", "amqp://127.0.0.1:5672/%2f");
    let name = variable("STREAM", "ledger");
    let stream = match env::var("PARTITIONS") {
        Ok(partitions) => Queue::super_stream(name, partitions.parse::<u16>()?),
        Err(_) => Queue::stream(name),
    };
    // Whoever is started again after `kill -9` waits so long for the one that was killed.
    let stream = stream.takeover_after(Duration::from_secs(5));
    let stats = Worker::builder(store)
        .consume_stream::<H>(stream)
        .on_settled(|settled: &Settled<'_>| line(settled.kind, settled.key))
        .run_until(&*amqp_url, shutdown_signal())
        .await?;
    println!("done: {stats}");
    Ok(())
}

/// `executed     ledger.book:p-17`
fn line(kind: ExecutionKind, key: Option<&Key>) {
    let key = key.map(ToString::to_string);
    let key = key.as_deref().unwrap_or("(no key)");
    println!("{:<12} {key}", kind.label());
}

/// One line for each posting.
fn print_ledger(rows: Vec<Row>) {
    for (posting_id, account, cents, booked, balance) in rows {
        let row = serde_json::json!({
            "posting_id": posting_id,
            "account": account,
            "cents": cents,
            "booked": booked,
            "balance": balance,
        });
        println!("{row}");
    }
}

fn variable(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_owned())
}
