//! `cargo xtask chaos`: carries out what is planned, and judges what became of the orders.

use std::{env, panic::AssertUnwindSafe, process::ExitCode};

use clap::Parser;
use futures_util::FutureExt as _;
use idem_servers::install;
use idem_tests::chaos::{Chaos, Options, Plan};
use tracing_subscriber::EnvFilter;

/// Kills, pauses and cuts by a seeded schedule while orders are charged, and counts the charges
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask chaos")]
struct Line {
    #[command(flatten)]
    options: Options,
}

#[tokio::main]
async fn main() -> ExitCode {
    // What our own connections go through is no news, unless somebody asks for it.
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "off".into()))
        .with_writer(std::io::stderr)
        .init();
    let options = Line::parse().options;
    let plan = Plan::new(&options);
    println!("{plan}");
    if options.prints_schedule_only() {
        print!("{}", plan.schedule());
        return ExitCode::SUCCESS;
    }
    if let Err(error) = install::all_for_development() {
        eprintln!("error: {}", error.with_causes());
        return ExitCode::FAILURE;
    }
    let worker = env::current_exe().expect("this program has a path");
    let worker = worker.with_file_name("ledger-worker");
    let run = AssertUnwindSafe(Chaos::new(&plan, &worker).run());
    let Ok(report) = run.catch_unwind().await else {
        println!(
            "{plan}\n{}the faults could not be injected as planned",
            plan.schedule()
        );
        return ExitCode::FAILURE;
    };
    if report.is_clean() {
        print!("{report}");
        return ExitCode::SUCCESS;
    }
    match report.keep_logs() {
        Ok(folder) => println!("the workers' logs are in {}", folder.display()),
        Err(error) => println!("the workers' logs could not be kept: {error}"),
    }
    print!("{report}");
    ExitCode::FAILURE
}
