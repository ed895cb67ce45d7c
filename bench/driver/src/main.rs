//! `cargo xtask bench …`.

use std::process::ExitCode;

use bench_driver::{consume, latency, outbox, scale, stores};
use clap::Parser;

/// Measures
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench")]
enum Bench {
    /// Claims and completions per second in each store, beside the code that people write by hand
    Stores(stores::Options),
    /// Messages per second of a consumer that handles each once, beside consumers written by hand
    Consume(consume::Options),
    /// How long one message takes with such a consumer, beside a plain one
    Latency(latency::Options),
    /// What an outbox costs, how fast a relay is, and how long an event takes, beside one by hand
    Outbox(outbox::Options),
    /// Several workers, many keys, the memory of a worker, and purging under load
    Scale(scale::Options),
}

fn main() -> ExitCode {
    let done = match Bench::parse() {
        Bench::Stores(options) => stores::run(&options),
        Bench::Consume(options) => consume::run(&options),
        Bench::Latency(options) => latency::run(&options),
        Bench::Outbox(options) => outbox::run(&options),
        Bench::Scale(options) => scale::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", error.with_causes());
            ExitCode::FAILURE
        }
    }
}
