//! All tests, and all that continuous integration looks at, each step with its time at the end.

mod choice;
mod counted;
mod features;
mod matrix;
mod msrv;
mod release;
mod servers;
mod steps;

use std::{env, process::Command};

pub use self::matrix::{Options, QUEUES_VARIABLE};
pub use self::release::{audit, package};
use self::{servers::Servers, steps::Steps};
use crate::{
    Result,
    cargo::{Workspace, cargo},
    chaos,
};

/// How many tests of a binary run at a time. Most of them wait for servers, and do not compute.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// Every test of the workspace on private servers, every feature of every crate by itself, and
/// the oldest supported Rust; or that part of it which the options ask for.
///
/// # Errors
///
/// A step failed; the others ran nevertheless.
pub fn test(options: &Options) -> Result<()> {
    let workspace = Workspace::load()?;
    let mut steps = Steps::default();
    if options.ask_for_a_part() {
        matrix::run(&workspace, options, &mut steps);
    } else {
        run_tests(&workspace, &mut steps)?;
    }
    steps.finish("test")
}

/// Formatting, lints and documentation with warnings denied, then [`test`](fn@test), then half a
/// minute of [`chaos`].
///
/// # Errors
///
/// A step failed; the others ran nevertheless.
pub fn ci() -> Result<()> {
    let workspace = Workspace::load()?;
    let mut steps = Steps::default();
    steps.run(cargo_with(&workspace, "fmt --all --check"));
    let apart = "fmt --check --manifest-path tests/bench-mq-bridge/Cargo.toml";
    steps.run(cargo_with(&workspace, apart));
    steps.run(cargo_with(
        &workspace,
        "clippy --workspace --all-targets --all-features -- -D warnings",
    ));
    let mut documentation = cargo_with(&workspace, "doc --workspace --no-deps --all-features");
    documentation.env("RUSTDOCFLAGS", "-D warnings");
    steps.run(documentation);
    run_tests(&workspace, &mut steps)?;
    let plan = chaos::for_continuous_integration();
    steps.attempt(&plan.to_string(), || {
        chaos::run_after_tests(&workspace, &plan)
    });
    steps.finish("ci")
}

fn run_tests(workspace: &Workspace, steps: &mut Steps) -> Result<()> {
    let servers = Servers::start(steps, None);
    steps.run_tests("cargo test --workspace --all-features", || {
        let mut tests = cargo_with(workspace, "test --workspace --all-features --no-fail-fast");
        servers.hand_to(&mut tests);
        with_threads(tests)
    });
    drop(servers);
    for (package, features) in features::to_check(workspace)? {
        // Clippy has seen all of the code with all features; what one of them leaves unused or unknown, rustc tells.
        let target = features::target(package);
        let check = format!(
            "rustc --profile check --package {package} {target} --no-default-features {features} -- -D warnings"
        );
        steps.run(cargo_with(workspace, &check));
    }
    steps.attempt("minimum Rust version of dependencies", || {
        msrv::dependencies(workspace)
    });
    if let Some(check) = msrv::check(workspace)? {
        steps.run(check);
    }
    Ok(())
}

fn with_threads(mut tests: Command) -> Command {
    if env::var_os(TEST_THREADS).is_none() {
        tests.env(TEST_THREADS, "8");
    }
    tests
}

fn cargo_with(workspace: &Workspace, arguments: &str) -> Command {
    let mut command = cargo(&workspace.root);
    command.args(arguments.split_ascii_whitespace());
    command
}
