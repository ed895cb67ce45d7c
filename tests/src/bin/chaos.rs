//! Carries out what `cargo xtask chaos` has planned, and judges what became of the orders.

use std::{env, panic::AssertUnwindSafe, process::ExitCode};

use futures_util::FutureExt as _;
use idem_tests::chaos::Chaos;
use tracing_subscriber::EnvFilter;
use xtask::chaos::{PLAN_VARIABLE, Plan};

#[tokio::main]
async fn main() -> ExitCode {
    // What our own connections go through is no news, unless somebody asks for it.
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "off".into()))
        .with_writer(std::io::stderr)
        .init();
    let plan = env::var(PLAN_VARIABLE).expect("`cargo xtask chaos` starts this, with a plan");
    let plan: Plan = serde_json::from_str(&plan).expect("a plan");
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
