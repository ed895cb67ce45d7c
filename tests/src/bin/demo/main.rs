//! `cargo xtask demo`: orders published several times each, two workers, one of them killed in the middle, and a ledger
//! that shows every order charged once; leases, whose replies are dropped; what is published by an outbox; and a stream
//! that is read twice.
//!
//! The programs of the examples are beside this one: `cargo xtask demo` has built them.

mod leases;
mod orders;
mod outbox;
mod program;
mod run;
mod servers;
mod stream;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Publishes orders several times each, kills a worker in the middle, and counts the charges
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask demo", args_conflicts_with_subcommands = true)]
struct Demo {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    orders: orders::Options,
}

/// What else there is to show.
#[derive(Debug, Subcommand)]
enum Other {
    /// Asks for leases while replies are dropped and programs are killed, and counts the leases
    Leases(leases::Options),
    /// Kills a service again and again while another ships what it charges, and counts charges, events and shipments
    Outbox(outbox::Options),
    /// Kills a service that books postings from a stream, lets it read the stream again, and checks the balances
    Stream(stream::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    let demo = Demo::parse();
    let shown = match &demo.other {
        None => orders::show(&demo.orders).await,
        Some(Other::Leases(options)) => leases::show(options).await,
        Some(Other::Outbox(options)) => outbox::show(options).await,
        Some(Other::Stream(options)) => stream::show(options).await,
    };
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
