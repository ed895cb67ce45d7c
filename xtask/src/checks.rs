//! All tests, and all that continuous integration looks at, each step with its time at the end.

mod features;
mod msrv;
mod steps;

use std::process::Command;

use self::steps::Steps;
use crate::{
    Result,
    cargo::{Workspace, cargo},
    install,
    services::{RabbitMq, Server, rabbitmq},
};

/// Every test of the workspace on a private RabbitMQ, every feature of every crate by itself, and
/// the oldest supported Rust.
///
/// # Errors
///
/// A step failed; the others ran nevertheless.
pub fn test() -> Result<()> {
    let workspace = Workspace::load()?;
    let mut steps = Steps::default();
    run_tests(&workspace, &mut steps)?;
    steps.finish("test")
}

/// Formatting, lints and documentation with warnings denied, then [`test`](fn@test).
///
/// # Errors
///
/// A step failed; the others ran nevertheless.
pub fn ci() -> Result<()> {
    let workspace = Workspace::load()?;
    let mut steps = Steps::default();
    steps.run(cargo_with(&workspace, "fmt --all --check"));
    steps.run(cargo_with(
        &workspace,
        "clippy --workspace --all-targets --all-features -- -D warnings",
    ));
    let mut documentation = cargo_with(&workspace, "doc --workspace --no-deps --all-features");
    documentation.env("RUSTDOCFLAGS", "-D warnings");
    steps.run(documentation);
    run_tests(&workspace, &mut steps)?;
    steps.finish("ci")
}

fn run_tests(workspace: &Workspace, steps: &mut Steps) -> Result<()> {
    // Without a broker the tests that need one fail, and say how to get it; the others run.
    let broker = steps.attempt("private RabbitMQ", || {
        install::installed_rabbitmq()?;
        RabbitMq::start()
    });
    let mut tests = cargo_with(workspace, "test --workspace --all-features --no-fail-fast");
    if let Some(broker) = &broker {
        tests.env("IDEM_TEST_AMQP_URL", broker.amqp_url());
        tests.env(rabbitmq::FOLDER_VARIABLE, broker.folder());
    }
    steps.run(tests);
    drop(broker);
    for (package, features) in features::to_check(workspace)? {
        let check =
            format!("clippy --package {package} --no-default-features {features} -- -D warnings");
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

fn cargo_with(workspace: &Workspace, arguments: &str) -> Command {
    let mut command = cargo(&workspace.root);
    command.args(arguments.split_ascii_whitespace());
    command
}
