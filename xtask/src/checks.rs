//! All tests, and all that continuous integration looks at, each step with its time at the end.

mod counted;
mod features;
mod matrix;
mod memory;
mod msrv;
mod release;
mod servers;
mod steps;

use std::{env, process::Command, thread};

pub use self::matrix::Options;
pub use self::release::{audit, package};
use self::steps::Steps;
use idem_servers::Result;

use crate::cargo::{Workspace, cargo};

/// How many tests of a binary run at a time.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// Most tests wait for servers, and do not compute.
const MANY: &str = "24";

/// A chaos run has servers and workers of its own, which keep a processor busy half of the time. All at once would
/// stretch each beyond the time that its faults are made for.
const FEW: &str = "6";

/// Always the same seed: it is the change that is to make it fail, not luck, and the next run is to fail as well. Other
/// seeds are for looking further.
const CHAOS: &str = "--seconds 30 --seed 1 --outbox";

/// Every test of the workspace on private servers, the usual sets of features each by itself, and the oldest supported
/// Rust; or that part of it which the options ask for.
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
        run_tests(&workspace, &mut steps, Vec::new(), None)?;
    }
    steps.finish("test")
}

/// Formatting, then [`test`](fn@test) and beside it lints and documentation with warnings denied, and half a minute of
/// faults.
///
/// # Errors
///
/// A step failed; the others ran nevertheless.
pub fn ci() -> Result<()> {
    let workspace = Workspace::load()?;
    let mut steps = Steps::default();
    steps.run(cargo_with(&workspace, "fmt --all --check"));
    steps.run(cargo_on_bench(&workspace, "fmt --check"));
    let mut documentation = cargo_with(&workspace, "doc --workspace --no-deps --all-features");
    documentation.env("RUSTDOCFLAGS", "-D warnings");
    let lints = "clippy --workspace --all-targets --all-features -- -D warnings";
    let beside = vec![
        cargo_with(&workspace, lints),
        documentation,
        cargo_on_bench(&workspace, "clippy --all-targets -- -D warnings"),
    ];
    // Its tests have built it.
    let mut chaos = Command::new(workspace.target.join("debug/chaos"));
    chaos.args(CHAOS.split(' '));
    memory::keep_temporary_files_of(&mut chaos);
    run_tests(&workspace, &mut steps, beside, Some(chaos))?;
    steps.finish("ci")
}

/// The tests, and beside them all that is only compiled, as tests wait for servers most of the time; then, still beside
/// them, what waits for servers, too.
fn run_tests(
    workspace: &Workspace,
    steps: &mut Steps,
    mut compiled: Vec<Command>,
    waiting: Option<Command>,
) -> Result<()> {
    // Clippy sees all of the code with all features; what one of them leaves unused or unknown, rustc tells.
    compiled.extend(features::checks().map(|check| cargo_with(workspace, &check)));
    compiled.extend(msrv::check(workspace)?);
    // Compiled beside the others, and run after them.
    compiled.push(cargo_on_bench(workspace, "test --no-run"));
    let build = "test --workspace --all-features --no-run";
    steps.run(cargo_with(workspace, build));
    let servers = servers::start(steps, None);
    let on_servers = |mut tests: Command, at_a_time: &str| {
        servers.hand_to(&mut tests);
        as_tests(tests, at_a_time)
    };
    let beside = thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let mut steps = Steps::default();
            for command in &compiled {
                steps.run_with_what_tests_leave(command);
            }
            if let Some(command) = waiting {
                steps.run_beside_tests(command);
            }
            // It is no part of plain `cargo test` (see its manifest): by itself it would leave the processors idle,
            // while it waits for workers that it has killed.
            let harness = "test --workspace --all-features --test harness";
            steps.run_tests("cargo test --test harness", || {
                on_servers(cargo_with(workspace, harness), FEW)
            });
            steps
        });
        let all = "test --workspace --all-features --no-fail-fast";
        steps.run_tests("cargo test --workspace --all-features", || {
            on_servers(cargo_with(workspace, all), MANY)
        });
        beside.join().expect("a step that fails does not panic")
    });
    steps.append(beside);
    // They measure for milliseconds, in which a busy machine may do nothing.
    steps.run_tests("cargo test, benchmarks", || {
        on_servers(cargo_on_bench(workspace, "test --no-fail-fast"), MANY)
    });
    drop(servers);
    steps.attempt("minimum Rust version of dependencies", || {
        msrv::dependencies(workspace)
    });
    Ok(())
}

fn as_tests(mut tests: Command, at_a_time: &str) -> Command {
    memory::keep_temporary_files_of(&mut tests);
    if env::var_os(TEST_THREADS).is_none() {
        tests.env(TEST_THREADS, at_a_time);
    }
    tests
}

/// Cargo on the workspace of the benchmarks, into the same target folder: what both depend on, with the same features,
/// is built once.
fn cargo_on_bench(workspace: &Workspace, arguments: &str) -> Command {
    let mut command = cargo_with(workspace, arguments);
    command
        .current_dir(workspace.root.join("bench"))
        .env("CARGO_TARGET_DIR", &workspace.target);
    command
}

fn cargo_with(workspace: &Workspace, arguments: &str) -> Command {
    let mut command = cargo(&workspace.root);
    command.args(arguments.split_ascii_whitespace());
    command
}
