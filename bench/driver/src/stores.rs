//! Measures the stores beside the code that people write by hand: the program `bench-stores`, on a
//! server of its own for each of its runs.

mod aims;
mod figures;
mod measurement;
mod plan;
mod report;
mod server;

use std::path::PathBuf;

pub use self::measurement::{Kind, Measurement, Pace, Side};
use self::{
    figures::Figures,
    plan::{Part, Plan},
    report::Report,
    server::BenchServer,
};
use super::{StoreKind, kept, program::Program};
use idem_servers::Result;

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

/// Measures, prints tables and, last, one line per store and number of callers.
///
/// # Errors
///
/// Something is missing, or a store lost a key.
pub fn run(options: &Options) -> Result<()> {
    let plan = Plan::new(options);
    let program = Program::build("bench-stores")?;
    let mut figures = Figures::default();
    for &store in plan.stores() {
        for part in plan.parts_of(store) {
            eprintln!("measuring {}: {part}", store.name());
            let server = BenchServer::start(store)?;
            figures.add(
                store,
                measure(&program, store, &part, server.url().as_deref())?,
            );
        }
    }
    let report = Report::new(&figures, plan.duplicates());
    if let Some(file) = &options.json {
        kept::json(file, &report)?;
    }
    print!("{report}");
    Ok(())
}

fn measure(
    program: &Program,
    store: StoreKind,
    part: &Part,
    url: Option<&str>,
) -> Result<Vec<Measurement>> {
    let arguments = part.arguments();
    let mut arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    if !matches!(part, Part::Crowd { .. }) {
        arguments.extend(["--store", store.name()]);
    }
    arguments.extend(url.iter().flat_map(|url| ["--url", url]));
    program.run(&arguments)
}
