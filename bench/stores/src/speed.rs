//! Claim plus completion per second, ours and theirs in turn.

mod entrant;

use std::time::Duration;

use bench_driver::stores::Side;
use idem_core::{MemoryStore, PostgresStore, RedisStore, SqliteStore};
use redis::{aio::MultiplexedConnection, cluster_async::ClusterConnection};

use self::entrant::Entrant;
use crate::{
    Result, census,
    contender::Contender,
    naive::{NaiveMemory, NaivePostgres, NaiveRedis, NaiveSqlite},
    ours::Ours,
    venue::{Place, Venue, naive_file, nodes, our_file},
};

/// A round of warming up is this much shorter.
const WARM_UP: u32 = 4;

/// How to measure.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    place: Place,
    /// How many callers at a time, one table row each
    #[arg(long, value_delimiter = ',', required = true)]
    callers: Vec<usize>,
    /// How many rounds of each side
    #[arg(long)]
    rounds: usize,
    /// How long a round is, in milliseconds
    #[arg(long)]
    round_ms: u64,
    /// How many of a hundred operations claim a completed key instead of a new one
    #[arg(long, default_value_t = 0)]
    duplicates: u64,
}

/// Measures as the options say, tells each round, and makes sure that no key was lost.
pub(crate) async fn measure(options: &Options) -> Result<()> {
    let venue = options.place.open()?;
    match &venue {
        Venue::Memory => {
            let ours = MemoryStore::new();
            compete(options, &venue, Ours(ours), NaiveMemory::default()).await
        }
        Venue::Sqlite(folder) => {
            let ours = SqliteStore::connect(our_file(folder)).await?;
            let naive = NaiveSqlite::open(&naive_file(folder)).await?;
            compete(options, &venue, Ours(ours), naive).await
        }
        Venue::Postgres { url } => {
            let ours = PostgresStore::connect(url).await?;
            let naive = NaivePostgres::connect(url).await?;
            compete(options, &venue, Ours(ours), naive).await
        }
        Venue::Redis { url } => {
            let ours = RedisStore::connect(url).await?;
            let naive = NaiveRedis::<MultiplexedConnection>::connect(url).await?;
            compete(options, &venue, Ours(ours), naive).await
        }
        Venue::RedisCluster { url } => {
            let ours = RedisStore::connect(url).await?;
            let naive = NaiveRedis::<ClusterConnection>::connect(nodes(url)).await?;
            compete(options, &venue, Ours(ours), naive).await
        }
    }
}

async fn compete(
    options: &Options,
    venue: &Venue,
    ours: impl Contender,
    naive: impl Contender,
) -> Result<()> {
    let ours = Entrant::new(Side::Idem, ours, options.duplicates);
    let naive = Entrant::new(Side::Naive, naive, options.duplicates);
    let round = Duration::from_millis(options.round_ms);
    for &callers in &options.callers {
        ours.warm_up(callers, round / WARM_UP).await?;
        naive.warm_up(callers, round / WARM_UP).await?;
        for number in 0..options.rounds {
            // In turn, so that neither always comes after the other.
            if number % 2 == 0 {
                ours.perform(callers, round).await?;
                naive.perform(callers, round).await?;
            } else {
                naive.perform(callers, round).await?;
                ours.perform(callers, round).await?;
            }
        }
    }
    census::agrees(venue, ours.completed() + naive.completed()).await
}
