//! The tables: created on connect, by one process at a time, and never guessed at.

use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};

use super::sql::Sql;

/// The version of `schema.sql`.
const KNOWN: i64 = 1;

/// Creates the tables unless they are there, and checks their version.
pub(super) async fn migrate(
    connection: &mut SqliteConnection,
    sql: &Sql,
) -> Result<(), MigrateError> {
    // First without the write lock: most starts find everything in place.
    let version = match version(connection, sql).await? {
        Some(version) => version,
        None => create(connection, sql).await?,
    };
    if version != KNOWN {
        return Err(MigrateError::Version {
            found: version,
            known: KNOWN,
        });
    }
    if !is_complete(connection, sql).await? {
        in_transaction(connection, async |connection| {
            complete(connection, sql).await
        })
        .await?;
    }
    check(connection, sql).await?;
    Ok(())
}

/// Fails if the tables are not there, and changes nothing.
pub(super) async fn expect_tables(
    options: &SqliteConnectOptions,
    sql: &Sql,
    table: &str,
) -> Result<(), MigrateError> {
    let mut connection = options.connect().await?;
    if version(&mut connection, sql).await?.is_none() {
        return Err(MigrateError::Missing {
            table: table.to_owned(),
        });
    }
    Ok(connection.close().await?)
}

/// Fails unless the tables answer as this version's do.
pub(super) async fn check(connection: &mut SqliteConnection, sql: &Sql) -> Result<(), sqlx::Error> {
    let loads = [
        (&sql.load, "[]"),
        (&sql.load_session, ""),
        (&sql.sequences.load, ""),
    ];
    for (load, nobody) in loads {
        sqlx::query(load.clone())
            .bind(nobody)
            .fetch_optional(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Creates the tables under the write lock, where no other process does.
async fn create(connection: &mut SqliteConnection, sql: &Sql) -> Result<i64, sqlx::Error> {
    in_transaction(connection, async |connection| {
        if let Some(version) = version(connection, sql).await? {
            return Ok(version);
        }
        sqlx::raw_sql(sql.schema.clone())
            .execute(&mut *connection)
            .await?;
        Ok(KNOWN)
    })
    .await
}

/// Whether nothing is missing that an earlier version of the program did not create.
async fn is_complete(connection: &mut SqliteConnection, sql: &Sql) -> Result<bool, sqlx::Error> {
    let has_outbox = sqlx::query(sql.outbox.counts.clone()).bind(0);
    let has_outbox = has_outbox.fetch_one(&mut *connection).await.is_ok();
    let has_streams = sqlx::query(sql.streams.load.clone()).bind("");
    let has_streams = has_streams.fetch_optional(&mut *connection).await.is_ok();
    Ok(has_outbox && has_streams && has_created_at(connection, sql).await?)
}

/// Creates what is missing.
async fn complete(connection: &mut SqliteConnection, sql: &Sql) -> Result<(), sqlx::Error> {
    // Asked under the lock: another process may have added it meanwhile.
    if !has_created_at(connection, sql).await? {
        sqlx::raw_sql(sql.add_created_at.clone())
            .execute(&mut *connection)
            .await?;
    }
    let schema = sqlx::raw_sql(sql.schema.clone());
    schema.execute(connection).await.map(drop)
}

async fn has_created_at(connection: &mut SqliteConnection, sql: &Sql) -> Result<bool, sqlx::Error> {
    let columns: i64 = sqlx::query_scalar(sql.has_created_at.clone())
        .fetch_one(connection)
        .await?;
    Ok(columns > 0)
}

/// Does all of this, or nothing, under the write lock.
async fn in_transaction<T>(
    connection: &mut SqliteConnection,
    work: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
) -> Result<T, sqlx::Error> {
    sqlx::raw_sql("BEGIN IMMEDIATE")
        .execute(&mut *connection)
        .await?;
    let done = work(connection).await;
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    sqlx::raw_sql(end).execute(connection).await?;
    done
}

/// The version of the tables, if they are there.
async fn version(connection: &mut SqliteConnection, sql: &Sql) -> Result<Option<i64>, sqlx::Error> {
    let tables: i64 = sqlx::query_scalar(sql.tables.clone())
        .fetch_one(&mut *connection)
        .await?;
    if tables == 0 {
        return Ok(None);
    }
    sqlx::query_scalar(sql.version.clone())
        .fetch_optional(connection)
        .await
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum MigrateError {
    #[error("its tables are version {found}, this program knows version {known}")]
    Version { found: i64, known: i64 },
    #[error("it has no table `{table}`: check the table's name, or create it with `idem migrate`")]
    Missing { table: String },
    #[error("its file system cannot hold a write-ahead log")]
    NoWal,
    /// The driver's error. Its words are in this message: as a source of its own, it would be told twice.
    #[error("{0}")]
    Sqlite(sqlx::Error),
}

impl From<sqlx::Error> for MigrateError {
    fn from(error: sqlx::Error) -> Self {
        Self::Sqlite(error)
    }
}
