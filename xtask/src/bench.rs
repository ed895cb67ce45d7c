//! Measures the stores beside the code that people write by hand, on servers that are set up as in
//! production.
//!
//! The measuring itself is done by the program `bench-stores`, which knows databases; this here
//! starts the servers, runs the program and reads its figures.

mod aims;
mod figures;
mod measurement;
mod median;
mod plan;
mod program;
mod report;
mod server;
mod table;

use std::{fs, path::PathBuf};

pub use self::measurement::{Kind, Measurement, Pace, Side};
use self::{figures::Figures, plan::Plan, program::Program, report::Report, server::BenchServer};
use crate::{Error, Result, cargo::Workspace};

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Rougher figures, in less than a minute
    #[arg(long)]
    quick: bool,
    /// Only these stores
    #[arg(long, value_enum, value_delimiter = ',')]
    store: Vec<StoreKind>,
    /// Only these numbers of callers
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    callers: Vec<u32>,
    /// How many of a hundred messages are copies of completed ones
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..100))]
    duplicates: u32,
    /// How many records the large table in PostgreSQL has, 0 for no such measurement [default:
    /// 10000000, with --quick 0]
    #[arg(long)]
    rows: Option<u64>,
    /// Writes every figure to a file, too
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A store that can be measured.
#[derive(Clone, Copy, Debug, clap::ValueEnum, serde::Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKind {
    /// This process's memory, beside a map behind a lock.
    Memory,
    /// A SQLite file.
    Sqlite,
    /// A PostgreSQL server.
    Postgres,
    /// A Redis server.
    Redis,
    /// Three Redis servers that share the keys.
    RedisCluster,
}

impl StoreKind {
    /// As it is written on a command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Redis => "redis",
            Self::RedisCluster => "redis-cluster",
        }
    }
}

/// Measures, prints tables and, last, one line per store and number of callers.
///
/// # Errors
///
/// Something is missing, or a store lost a key.
pub fn stores(options: &Options) -> Result<()> {
    let plan = Plan::new(options);
    let program = Program::build(&Workspace::load()?)?;
    let mut figures = Figures::default();
    for &store in plan.stores() {
        for part in plan.parts_of(store) {
            eprintln!("measuring {}: {part}", store.name());
            let server = BenchServer::start(store)?;
            figures.add(store, program.run(store, &part, server.url().as_deref())?);
        }
    }
    let report = Report::new(&figures, plan.duplicates());
    if let Some(file) = &options.json {
        let json = serde_json::to_vec_pretty(&report).expect("figures are plain data");
        fs::write(file, json).map_err(Error::io(format!("write {}", file.display())))?;
    }
    print!("{report}");
    Ok(())
}
