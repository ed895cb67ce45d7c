//! Measures one store beside the code that people write by hand for the same database.
//!
//! It is started by `cargo xtask bench stores`, which brings the servers; what it measures it tells
//! on standard output, one JSON object per line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod census;
mod contender;
mod crowd;
mod naive;
mod names;
mod ours;
mod round;
mod size;
mod speed;
mod tell;
mod venue;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T, E = Error> = std::result::Result<T, E>;

/// Measures a store
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Claim plus completion per second
    Speed(speed::Options),
    /// Claims in a table with many records, beside one with few
    Crowd(crowd::Options),
    /// What a completed key occupies
    Size(size::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    let measured = match Arguments::parse().what {
        What::Speed(options) => speed::measure(&options).await,
        What::Crowd(options) => crowd::measure(&options).await,
        What::Size(options) => size::measure(&options).await,
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-stores: {error}");
            ExitCode::FAILURE
        }
    }
}
