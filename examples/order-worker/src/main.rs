//! Charges each order once, even when its message arrives twice.
//!
//! ```sh
//! cargo run --release -p order-worker            # consumes until ctrl-c or SIGTERM
//! cargo run --release -p order-worker -- ledger  # prints what was charged
//! cargo run --release -p order-worker -- doctor  # says what can go wrong; exits with 1 if it is bad
//! cargo run --release -p order-worker -- --metrics 127.0.0.1:9464   # and serves Prometheus
//! ```
//!
//! Everything is set by environment variables, see `settings.rs`.

use std::{env, process::ExitCode};

use idem_amqp::{
    Policy, Queue, Store, Worker,
    error::ErrorChain,
    executor::RunsOn,
    handler::{Operation, PolicyError},
    shutdown_signal,
    store::Purge,
};
use tracing_subscriber::EnvFilter;

mod memory;
mod metrics;
mod order;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod report;
mod settings;
#[cfg(feature = "sqlite")]
mod sqlite;

use settings::{Arguments, Command, Settings};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    // What lapin complains about, the worker says too, in its own words.
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
            eprintln!("order-worker: {}", ErrorChain::of(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Error> {
    let arguments = Arguments::parse(env::args().skip(1))?;
    // First: what is counted goes to the recorder that is there when its handle is made.
    if let Some(address) = arguments.metrics {
        metrics::serve(address)?;
    }
    let settings = Settings::from_env(arguments.command)?;
    let ledger = settings.command == Command::Ledger;
    match settings.store_url.split(':').next() {
        #[cfg(feature = "sqlite")]
        Some("sqlite") if ledger => sqlite::print_ledger(&settings.store_url).await,
        #[cfg(feature = "sqlite")]
        Some("sqlite") => sqlite::consume(settings).await,
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") if ledger => {
            postgres::print_ledger(&settings.store_url).await
        }
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => postgres::consume(settings).await,
        #[cfg(feature = "redis")]
        Some("redis" | "rediss") if ledger => redis::print_ledger(&settings.store_url).await,
        #[cfg(feature = "redis")]
        Some("redis" | "rediss") => redis::consume(settings).await,
        _ if ledger => {
            Err("a ledger is kept by `sqlite:`, `postgres:` and `redis:`, where compiled in".into())
        }
        // Also any store that is not compiled in: the error names its feature.
        _ => memory::consume(settings).await,
    }
}

/// What is the same for every store: the queue, the log, the way to stop.
async fn consume<H, S, St>(settings: Settings, store: S, state: St) -> Result<(), Error>
where
    H: idem_amqp::handler::Handler<St>,
    H::Mode: RunsOn<S>,
    S: Store + Purge + Clone,
    St: Send + Sync + 'static,
{
    let queue = Queue::quorum(&settings.queue)
        .prefetch(settings.prefetch)
        .policy(policy::<H>(&settings)?);
    let log = settings.log;
    let worker = Worker::builder(store)
        .state(state)
        .consume::<H>(queue)
        .on_settled(move |settled| report::line(log, settled))
        .build(&settings.amqp_url)?;
    if settings.command == Command::Doctor {
        return report::findings(log, &worker.doctor().await);
    }
    report::ready(log);
    let complaining = tokio::spawn(report::complaints(worker.health()));
    let balance = worker.run_until(shutdown_signal()).await?;
    complaining.abort();
    report::summary(log, &balance);
    Ok(())
}

fn policy<H: Operation>(settings: &Settings) -> Result<Policy, PolicyError> {
    let policy = H::POLICY.to_builder();
    match settings.lease {
        Some(lease) => policy.lease(lease).build(),
        None => policy.build(),
    }
}
