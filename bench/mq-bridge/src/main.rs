//! Consumes a queue through mq-bridge, which deduplicates, and tells how long that took.
//!
//! It is started by `cargo xtask bench consume`, which brings the servers and has the queue filled.

use std::process::ExitCode;

use bench_orders::{Options, Result};
use clap::{Parser, Subcommand};

mod nobody;
mod route;
mod settled;
mod store;

/// Measures mq-bridge as the consumer of a queue
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Consumes it, until it is empty and everything is acknowledged
    Consume(Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    let What::Consume(options) = Arguments::parse().what;
    match bench_orders::measure(&options, route::consume).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-mq-bridge: {error}");
            ExitCode::FAILURE
        }
    }
}
