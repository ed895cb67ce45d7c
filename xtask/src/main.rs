//! `cargo xtask …`: the tasks of this workspace.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use idem_servers::development;
use xtask::{bench, chaos, checks, demo, mutants};

/// The tasks of this workspace
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Publishes orders several times each, kills a worker in the middle, and counts the charges
    Demo(demo::Options),
    /// Kills, pauses and cuts by a seeded schedule while orders are charged, and counts the charges
    Chaos(chaos::Options),
    /// Measures
    #[command(subcommand)]
    Bench(Bench),
    /// Runs every test there is, on private servers
    Test(checks::Options),
    /// Runs what continuous integration runs: formatting, lints, documentation, tests
    Ci,
    /// Changes each SQL statement and Lua script in one place after the other: a test has to notice
    Mutants(mutants::Options),
    /// Packages the crates, and builds each from its package alone
    Package,
    /// Looks at licences and advisories of all dependencies, with cargo-deny
    Audit,
    /// Private servers for development
    #[command(subcommand)]
    Services(Services),
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Claims and completions per second in each store, beside the code that people write by hand
    Stores(bench::stores::Options),
    /// Messages per second of a consumer that handles each once, beside consumers written by hand
    Consume(bench::consume::Options),
    /// How long one message takes with such a consumer, beside a plain one
    Latency(bench::latency::Options),
    /// Several workers, many keys, the memory of a worker, and purging under load
    Scale(bench::scale::Options),
}

#[derive(Debug, Subcommand)]
enum Services {
    /// Starts them in the background and prints their URLs
    Up,
    /// Stops them and removes their data
    Down,
    /// Prints their URLs as variables for a shell
    Env,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Demo(options) => demo::run(&options),
        Task::Chaos(options) => chaos::run(&options),
        Task::Bench(Bench::Stores(options)) => bench::stores::run(&options),
        Task::Bench(Bench::Consume(options)) => bench::consume::run(&options),
        Task::Bench(Bench::Latency(options)) => bench::latency::run(&options),
        Task::Bench(Bench::Scale(options)) => bench::scale::run(&options),
        Task::Test(options) => checks::test(&options),
        Task::Ci => checks::ci(),
        Task::Mutants(options) => mutants::run(&options),
        Task::Package => checks::package(),
        Task::Audit => checks::audit(),
        Task::Services(Services::Up) => development::up(),
        Task::Services(Services::Down) => development::down(),
        Task::Services(Services::Env) => development::env(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", error.with_causes());
            ExitCode::FAILURE
        }
    }
}
