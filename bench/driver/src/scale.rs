//! Measures what becomes of a consumer's speed and memory when there is more of something.
//!
//! More workers on one queue, more keys in the table, more deliveries in the hands of one worker,
//! more keys that need not be remembered any longer. The program `bench-consume` measures; this here
//! starts the servers and compares.

mod keys;
mod memory;
mod plan;
mod purge;
mod report;
mod workers;

use std::path::PathBuf;

pub use self::{
    plan::Part,
    purge::{Backlog, Forgetting},
    workers::Together,
};
use self::{plan::Plan, report::Report};
use super::{arena::Arena, consume::Contestant, kept};
use idem_servers::Result;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Rougher figures, in a few minutes: without ten million keys
    #[arg(long)]
    quick: bool,
    /// Only these
    #[arg(long, value_enum, value_delimiter = ',')]
    part: Vec<Part>,
    /// Who shares a queue among several workers: those of idem that keep their keys in a server
    /// [default: idem-postgres,idem-redis]
    #[arg(long, value_enum, value_delimiter = ',')]
    contestant: Vec<Contestant>,
    /// How many messages are in the queue, four times as many for purging [default: 50000, with
    /// --quick 10000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(10..))]
    messages: Option<u32>,
    /// How often everything has its turn [default: 5, with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Of purging, only what it costs while a transaction is open all the time
    #[arg(long)]
    held: bool,
    /// Writes every figure to a file, too
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Measures, prints a table for each part and, last, one line per row of them.
///
/// # Errors
///
/// Something is missing, or a worker left a message or ran one more often than once.
pub fn run(options: &Options) -> Result<()> {
    let plan = Plan::new(options)?;
    let arena = Arena::open(&plan.contestants())?;
    let mut report = Report::new(&plan);
    for part in plan.parts() {
        match part {
            Part::Workers => report.workers = workers::measure(&arena, &plan)?,
            Part::Keys => report.keys = keys::measure(&arena, &plan)?,
            Part::Memory => report.memory = memory::measure(&arena, &plan)?,
            Part::Purge => report.purge = purge::measure(&arena, &plan)?,
        }
    }
    if let Some(file) = &options.json {
        kept::json(file, &report)?;
    }
    print!("{report}");
    Ok(())
}
