//! Faults by a seeded schedule while orders are charged: nothing lost, nothing doubled, nothing stuck.
//!
//! What is planned is decided here, and the same seed plans the same. The program `chaos`, which
//! knows brokers and stores, carries it out and judges what became of the orders.

mod fault;
mod options;
mod plan;
mod program;
mod schedule;

use self::program::Program;
pub use self::{
    fault::Fault,
    options::Options,
    plan::{Mode, Plan, Queues, StoreKind},
    program::PLAN_VARIABLE,
    schedule::{Injection, Place, Schedule},
};
use idem_servers::{Result, install};

use crate::cargo::Workspace;

/// Builds the program, runs it, and passes its verdict on.
///
/// # Errors
///
/// Something is missing, or an order was lost, doubled or stuck.
pub fn run(options: &Options) -> Result<()> {
    let plan = Plan::new(options);
    println!("{plan}");
    if options.prints_schedule_only() {
        print!("{}", plan.schedule());
        return Ok(());
    }
    install::all_for_development()?;
    Program::build(&Workspace::load()?)?.run(&plan)
}

/// What continuous integration runs, as [`run`].
pub(crate) fn for_continuous_integration() -> Plan {
    Plan::new(&Options::of_continuous_integration())
}

/// Runs it as one of all tests, which have been built.
pub(crate) fn run_after_tests(workspace: &Workspace, plan: &Plan) -> Result<()> {
    Program::build_with_all_tests(workspace)?.run(plan)
}
