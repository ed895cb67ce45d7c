//! Claims in a table with many records, and in one with few, in turn.

mod table;

use bench_driver::stores::{Kind, Measurement};

use self::table::Table;
use crate::{Result, tell};

/// Callers, and how many claims they make together in a round: few, because a table with few
/// records should not become one with many.
const ROUND: [(usize, u64); 2] = [(1, 200), (256, 2048)];

/// How to measure.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The PostgreSQL server: a new database
    #[arg(long)]
    url: String,
    /// How many records are in the one table
    #[arg(long)]
    few: u64,
    /// How many records are in the other
    #[arg(long)]
    many: u64,
    /// How many rounds of each table
    #[arg(long)]
    rounds: usize,
}

/// Fills two tables, measures as the options say, and tells each round.
pub(crate) async fn measure(options: &Options) -> Result<()> {
    let few = Table::filled(&options.url, "few", options.few).await?;
    let many = Table::filled(&options.url, "many", options.many).await?;
    for (part, bytes) in many.sizes().await? {
        tell::measured(&Measurement::Size {
            part: format!("{part} of {} records", options.many),
            keys: options.many,
            bytes,
        })?;
    }
    // The first round finds nothing in any cache.
    round(&few, &many, false).await?;
    for number in 0..options.rounds {
        if number % 2 == 0 {
            round(&few, &many, true).await?;
        } else {
            round(&many, &few, true).await?;
        }
    }
    Ok(())
}

async fn round(first: &Table, second: &Table, is_told: bool) -> Result<()> {
    for (callers, claims) in ROUND {
        for kind in [Kind::New, Kind::Duplicate] {
            for table in [first, second] {
                let pace = table.claim(kind, callers, claims).await?;
                if is_told {
                    tell::measured(&Measurement::Crowd {
                        records: table.records(),
                        callers,
                        kind,
                        pace,
                    })?;
                }
            }
        }
    }
    Ok(())
}
