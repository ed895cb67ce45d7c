//! How many keys there are in the end, counted where they are kept.

use idem_core::sqlx::{
    self, Connection, PgConnection, SqliteConnection, sqlite::SqliteConnectOptions,
};
use redis::{Client, cluster::ClusterClient};
use sqlx::ConnectOptions;
use tempfile::TempDir;

use crate::{
    Result,
    venue::{Venue, naive_file, nodes, our_file},
};

/// Compares what is completed, in a store and beside it together, with what was done.
///
/// # Errors
///
/// They differ.
pub(crate) async fn agrees(venue: &Venue, done: u64) -> Result<()> {
    match completed(venue).await? {
        Some(completed) if completed != done => {
            Err(format!("{done} keys were completed, {completed} are there").into())
        }
        _ => Ok(()),
    }
}

/// `None` where nobody but the store can look.
async fn completed(venue: &Venue) -> Result<Option<u64>> {
    Ok(match venue {
        Venue::Memory => None,
        Venue::Sqlite(folder) => Some(in_sqlite(folder).await?),
        Venue::Postgres { url } => Some(in_postgres(url).await?),
        Venue::Redis { url } => {
            let client = Client::open(url.as_str())?;
            let mut connection = client.get_multiplexed_async_connection().await?;
            Some(redis::cmd("DBSIZE").query_async(&mut connection).await?)
        }
        Venue::RedisCluster { url } => {
            let client = ClusterClient::new(nodes(url))?;
            let mut connection = client.get_async_connection().await?;
            Some(redis::cmd("DBSIZE").query_async(&mut connection).await?)
        }
    })
}

async fn in_postgres(url: &str) -> Result<u64> {
    let mut connection = PgConnection::connect(url).await?;
    let count: i64 = sqlx::query_scalar(
        "SELECT (SELECT count(*) FROM idem_records WHERE state = 'completed')
              + (SELECT count(*) FROM processed WHERE status = 'done')",
    )
    .fetch_one(&mut connection)
    .await?;
    Ok(count.try_into()?)
}

async fn in_sqlite(folder: &TempDir) -> Result<u64> {
    let options = |file| SqliteConnectOptions::new().filename(file);
    let mut ours: SqliteConnection = options(our_file(folder)).connect().await?;
    let mut naive: SqliteConnection = options(naive_file(folder)).connect().await?;
    let ours: i64 =
        sqlx::query_scalar("SELECT count(*) FROM idem_records WHERE state = 'completed'")
            .fetch_one(&mut ours)
            .await?;
    let naive: i64 = sqlx::query_scalar("SELECT count(*) FROM processed WHERE status = 'done'")
        .fetch_one(&mut naive)
        .await?;
    Ok((ours + naive).try_into()?)
}
