//! Fills a queue, or consumes it as one contestant and tells how long that took.
//!
//! It is started by `cargo xtask bench consume`, which brings the servers; what it measures it tells
//! on standard output, as one JSON object.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod by_hand;
mod charges;
mod consume;
mod latency;
mod load;
mod naive;
mod order;
mod ours;
mod place;
mod sequence;
mod stopwatch;
mod tally;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T, E = Error> = std::result::Result<T, E>;

/// Measures one consumer of a queue
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Fills a new queue
    Load(load::Options),
    /// Consumes it, until it is empty and everything is acknowledged
    Consume(consume::Options),
    /// Publishes messages one by one or at a rate, and measures how long each takes
    Latency(latency::Options),
    /// Measures how long the store takes for what a message asks of it
    Store(consume::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse().what {
        What::Load(options) => load::fill(&options).await,
        What::Consume(options) => consume::measure(&options).await,
        What::Latency(options) => latency::measure(&options).await,
        What::Store(options) => latency::measure_store(&options).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-consume: {error}");
            ExitCode::FAILURE
        }
    }
}
