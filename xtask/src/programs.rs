//! Tasks that are programs of their own: built, and run in place of this one.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt as _,
    process::{self, Command, Stdio},
};

use idem_servers::{Error, Result};

use crate::cargo::{Workspace, cargo, without_package};

/// What the program is told.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Demonstrates, with programs of the examples, which are put beside the one that lets them play together.
///
/// # Errors
///
/// As [`bench()`].
pub fn demo(arguments: &Arguments) -> Result<()> {
    const BUILD: &str = "--release --package idem-tests --bin demo --package order-worker --bin order-worker \
        --package publish-orders --bin publish-orders --package lease-server --bin lease-server \
        --package lease-client --bin lease-client --package outbox --bin outbox \
        --package ledger --bin ledger \
        --features order-worker/postgres,order-worker/redis,lease-server/postgres,outbox/postgres,ledger/postgres,ledger/kafka";
    run(BUILD, "release/demo", arguments)
}

/// Measures: the workspace of the benchmarks, in the same target folder.
///
/// # Errors
///
/// As the others here: the program cannot be built or started. If it is, this does not return.
pub fn bench(arguments: &Arguments) -> Result<()> {
    let build = "--release --manifest-path bench/Cargo.toml --package bench-driver";
    run(build, "release/bench-driver", arguments)
}

/// Kills, pauses and cuts. Built without optimisation, as tests are: what it finds does not depend on speed.
///
/// # Errors
///
/// As [`bench()`].
pub fn chaos(arguments: &Arguments) -> Result<()> {
    run("--package idem-tests --bins", "debug/chaos", arguments)
}

/// Changes statements and scripts, and runs the tests of their stores.
///
/// # Errors
///
/// As [`bench()`].
pub fn mutants(arguments: &Arguments) -> Result<()> {
    run("--package idem-mutants", "debug/idem-mutants", arguments)
}

fn run(build: &str, program: &str, arguments: &Arguments) -> Result<()> {
    let workspace = Workspace::load()?;
    let mut cargo = cargo(&workspace.root);
    cargo.arg("build").args(build.split(' '));
    cargo.arg("--target-dir").arg(&workspace.target);
    let status = cargo.stdin(Stdio::null()).status();
    if !status.map_err(Error::io("run `cargo build`"))?.success() {
        // Cargo has said why.
        process::exit(1);
    }
    let mut program = Command::new(workspace.target.join(program));
    without_package(&mut program);
    let refusal = program.args(&arguments.words).exec();
    Err(Error::io("start the program")(refusal))
}
