//! Fills a queue, or consumes it as one contestant and tells how long that took.
//!
//! It is started by `cargo xtask bench consume`, `bench latency`, `bench outbox` and `bench scale`, which bring the
//! servers; what it measures it tells on standard output, as one JSON object.

use std::process::ExitCode;

use bench_orders::{Error, Options, Place, Result};
use clap::{Parser, Subcommand};

mod by_hand;
mod charges;
mod consume;
mod events;
mod latency;
mod naive;
mod ours;
mod outbox;
mod purge;
mod records;
mod shift;
mod work;
mod workers;

/// Measures one consumer of a queue
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Fills a new queue
    Load(Place),
    /// Consumes it, until it is empty and everything is acknowledged
    Consume(Options),
    /// Publishes messages one by one or at a rate, and measures how long each takes
    Latency(latency::Options),
    /// Measures how long the store takes for what a message asks of it
    Store(Options),
    /// Consumes it in several processes
    Workers(workers::Options),
    /// Consumes it as one of several processes, as it is told on standard input
    Work(Options),
    /// Fills the table of a store with completed keys
    Fill(records::Fill),
    /// Removes the keys of a queue's orders from the table of a store
    Forget(records::Forget),
    /// Consumes it beside what else is in the table of an outbox
    Beside(outbox::Options),
    /// Publishes what is in the table of an outbox
    Relay(outbox::Options),
    /// Measures how long the events of orders take to their consumer
    Events(outbox::Options),
    /// Consumes it with keys that are remembered for two seconds only
    Purge(purge::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse().what {
        What::Load(options) => bench_orders::fill(&options).await,
        What::Consume(options) => consume::measure(&options).await,
        What::Latency(options) => latency::measure(&options).await,
        What::Store(options) => latency::measure_store(&options).await,
        What::Workers(options) => workers::measure(&options).await,
        What::Work(options) => work::work(&options).await,
        What::Fill(options) => records::fill(&options).await,
        What::Forget(options) => records::forget(&options).await,
        What::Beside(options) => outbox::consume(&options).await,
        What::Relay(options) => outbox::relay(&options).await,
        What::Events(options) => outbox::time_events(&options).await,
        What::Purge(options) => purge::measure(&options).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-consume: {error}");
            ExitCode::FAILURE
        }
    }
}
