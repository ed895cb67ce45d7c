//! What completed keys occupy.

use std::{fs, path::Path, sync::Arc};

use bench_driver::stores::Measurement;
use bench_stores::resident_memory;
use idem_core::{
    MemoryStore, PostgresStore, RedisStore, SqliteStore, Store,
    sqlx::{self, ConnectOptions, Connection, PgConnection, sqlite::SqliteConnectOptions},
};
use redis::Client;

use crate::{
    Result,
    contender::Contender,
    names::Names,
    ours::Ours,
    round::{self, Until},
    tell,
    venue::{Place, Venue, our_file},
};

/// As many as one batch holds.
const CALLERS: usize = 256;

/// How to measure.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    place: Place,
    /// How many keys are completed
    #[arg(long)]
    keys: u64,
}

/// Completes keys, and tells how much more the store occupies than before.
pub(crate) async fn measure(options: &Options) -> Result<()> {
    let keys = options.keys;
    match options.place.open()? {
        Venue::Memory => {
            let before = resident_memory()?;
            let store = MemoryStore::new();
            complete(store.clone(), keys).await?;
            told("process", keys, resident_memory()?.saturating_sub(before))
        }
        Venue::Sqlite(folder) => {
            let file = our_file(&folder);
            complete(SqliteStore::connect(&file).await?, keys).await?;
            told("file", keys, checkpointed(&file).await?)
        }
        Venue::Postgres { url } => {
            complete(PostgresStore::connect(&url).await?, keys).await?;
            let mut connection = PgConnection::connect(&url).await?;
            let (table, indexes): (i64, i64) = sqlx::query_as(
                "SELECT pg_table_size('idem_records'), pg_indexes_size('idem_records')",
            )
            .fetch_one(&mut connection)
            .await?;
            told("table", keys, table.try_into()?)?;
            told("indexes", keys, indexes.try_into()?)
        }
        Venue::Redis { url } => {
            let store = RedisStore::connect(&url).await?;
            let before = used_memory(&url).await?;
            complete(store, keys).await?;
            let after = used_memory(&url).await?;
            told("memory", keys, after.saturating_sub(before))
        }
        Venue::RedisCluster { .. } => Err("measure the size of one Redis: `--store redis`".into()),
    }
}

async fn complete(store: impl Store, keys: u64) -> Result<()> {
    let (ours, names) = (Arc::new(Ours(store)), Arc::new(Names::new()));
    let first = move |_| {
        let (ours, names) = (Arc::clone(&ours), Arc::clone(&names));
        async move { ours.first(&names.next()).await }
    };
    round::run(CALLERS, Until::Done(keys), first).await?;
    Ok(())
}

fn told(part: &str, keys: u64, bytes: u64) -> Result<()> {
    tell::measured(&Measurement::Size {
        part: part.to_owned(),
        keys,
        bytes,
    })
}

/// The size of a SQLite file after all that waits in its log is written to it.
async fn checkpointed(file: &Path) -> Result<u64> {
    let mut connection = SqliteConnectOptions::new().filename(file).connect().await?;
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(&mut connection)
        .await?;
    Ok(fs::metadata(file)?.len())
}

async fn used_memory(url: &str) -> Result<u64> {
    let client = Client::open(url)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let info: redis::InfoDict = redis::cmd("INFO")
        .arg("memory")
        .query_async(&mut connection)
        .await?;
    Ok(info.get("used_memory").ok_or("Redis does not tell")?)
}
