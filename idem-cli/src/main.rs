//! `idem`, the operator's command: looks into the stores of idempotent consumers and their outboxes, changes
//! one key at a time, and sends dead letters again or drops them.
//!
//! ```sh
//! export IDEM_STORE_URL=postgres://shop@db.example/shop
//! idem keys list --state in-progress --older-than 1h
//! idem keys show orders.charge:o-17
//! idem keys release orders.charge:o-17
//! ```
//!
//! `docs/operator.md` has an example of everything, and the exit statuses.

use std::process::ExitCode;

use clap::Parser as _;
use tracing_subscriber::EnvFilter;

mod arguments;
mod cache;
mod change;
mod confirm;
mod dead;
mod doctor;
mod error;
mod keys;
mod marks;
mod migrate;
mod operator;
mod outbox;
mod output;
mod purge;
mod span;
mod stats;
mod store;

use arguments::{Arguments, Command};
use error::Error;
use output::Output;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // What concerns the operator is said by the command itself.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .init();
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}

async fn run(arguments: Arguments) -> Result<(), Error> {
    let Arguments {
        store,
        amqp,
        json,
        command,
    } = arguments;
    let output = Output::new(json);
    match command {
        Command::Keys(command) => keys::run(&store, &output, command).await,
        Command::Stats => stats::run(&store, &output).await,
        Command::Purge { batch } => purge::run(&store, &output.optional(), batch).await,
        Command::Migrate { print } => migrate::run(&store, &output, print).await,
        Command::Dead(command) => dead::run(&amqp, &output, command).await,
        Command::Outbox(command) => outbox::run(&store, &amqp, &output, command).await,
        Command::Marks(command) => marks::run(&store, &output, command).await,
        Command::Doctor(arguments) => {
            doctor::run(&store, &amqp, &output.optional(), arguments).await
        }
    }
}
