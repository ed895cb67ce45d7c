//! `cargo xtask …`: the tasks of this workspace.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use idem_servers::development;
use xtask::{
    checks,
    programs::{self, Arguments},
};

/// The tasks of this workspace
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
struct Line {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Publishes orders several times each, kills a worker in the middle, and counts the charges
    #[command(disable_help_flag = true)]
    Demo(Arguments),
    /// Kills, pauses and cuts by a seeded schedule while orders are charged, and counts the charges
    #[command(disable_help_flag = true)]
    Chaos(Arguments),
    /// Measures: stores, consume, latency, outbox, scale
    #[command(disable_help_flag = true)]
    Bench(Arguments),
    /// Runs every test there is, on private servers
    Test(checks::Options),
    /// Runs what continuous integration runs: formatting, lints, documentation, tests
    Ci,
    /// Changes each SQL statement and Lua script in one place after the other: a test has to notice
    #[command(disable_help_flag = true)]
    Mutants(Arguments),
    /// Packages the crates, and builds each from its package alone
    Package,
    /// Looks at licences and advisories of all dependencies, with cargo-deny
    Audit,
    /// Private servers for development
    #[command(subcommand)]
    Services(Services),
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
    let done = match Line::parse().task {
        Task::Demo(arguments) => programs::demo(&arguments),
        Task::Chaos(arguments) => programs::chaos(&arguments),
        Task::Bench(arguments) => programs::bench(&arguments),
        Task::Test(options) => checks::test(&options),
        Task::Ci => checks::ci(),
        Task::Mutants(arguments) => programs::mutants(&arguments),
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
