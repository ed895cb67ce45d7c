//! Grants named leases, each once, and repeats its answers to clients that ask again.
//!
//! ```sh
//! cargo run -p lease-server            # serves until ctrl-c or SIGTERM
//! cargo run -p lease-server -- ledger  # prints the leases that were granted
//! ```
//!
//! | variable | default | |
//! |---|---|---|
//! | `AMQP_URL` | `amqp://127.0.0.1:5672/%2f` | the broker |
//! | `STORE_URL` | `sqlite:leases.db` | `sqlite:FILE`, or `postgres://…` with the feature `postgres` |
//! | `LEASES_QUEUE` | `leases` | the queue, declared by the server |

use std::{env, process::ExitCode, time::Duration};

use idem_amqp::{
    Worker,
    executor::RunsOn,
    handler::Handler,
    session::Sessions,
    shutdown_signal,
    store::{Purge, SessionStore},
    worker::{Health, Settled},
};
use tracing_subscriber::EnvFilter;

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

type Error = Box<dyn std::error::Error + Send + Sync>;

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
            eprintln!("lease-server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Error> {
    let ledger = match env::args().nth(1).as_deref() {
        None => false,
        Some("ledger") => true,
        Some(other) => return Err(format!("unknown command `{other}`: there is `ledger`").into()),
    };
    let store_url = variable("STORE_URL", "sqlite:leases.db");
    match store_url.split(':').next() {
        #[cfg(feature = "sqlite")]
        Some("sqlite") if ledger => sqlite::print_ledger(&store_url).await,
        #[cfg(feature = "sqlite")]
        Some("sqlite") => sqlite::serve(&store_url).await,
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") if ledger => postgres::print_ledger(&store_url).await,
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => postgres::serve(&store_url).await,
        _ => Err(format!(
            "STORE_URL `{store_url}`: leases are kept by `sqlite:` and `postgres:`, where compiled in"
        )
        .into()),
    }
}

/// What is the same for every store: clients may open sessions, and are told what came of each request.
async fn serve<H, S>(store: S) -> Result<(), Error>
where
    H: Handler<()>,
    H::Mode: RunsOn<S>,
    S: SessionStore + Purge + Clone,
{
    let queue = variable("LEASES_QUEUE", "leases");
    let worker = Worker::builder(store)
        .consume_in_sessions::<H>(queue.as_str(), Sessions::default())
        .on_settled(line)
        .build(variable("AMQP_URL", "amqp://127.0.0.1:5672/%2f").as_str())?;
    let ready = tokio::spawn(told_when_ready(worker.health(), queue));
    let ended = worker.run_until(shutdown_signal()).await;
    ready.abort();
    println!("done: {}", ended?);
    Ok(())
}

/// Its queues are there: clients may come.
async fn told_when_ready(health: Health, queue: String) {
    while !health.is_ready() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("serving `{queue}`; stop with ctrl-c or SIGTERM");
}

/// `executed     leases.create:…~17`
fn line(settled: &Settled<'_>) {
    let key = settled.key.map(ToString::to_string);
    let again = if settled.redelivered {
        ", redelivered"
    } else {
        ""
    };
    println!(
        "{:<12} {}{again}",
        settled.kind.label(),
        key.as_deref().unwrap_or("(no key)")
    );
}

fn variable(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_owned())
}
