//! The tables: created by one process at a time, and never guessed at.

use std::time::Duration;

use sqlx::{Connection, PgConnection};

use super::{names::Names, pooler};
use crate::{error_chain::ErrorChain, store::ConnectError};

/// The version of `schema.sql`.
const KNOWN: i64 = 1;

/// Whatever the server's default is.
pub(super) const READ_COMMITTED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Whether a store creates its tables when it starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Migrate {
    /// Creates what is missing: also what this version of the program needs and an earlier one did not. Tables that
    /// lack nothing are left alone, so that a role without the right to create any is enough from then on.
    #[default]
    AtStart,
    /// Refuses to start unless the tables are there: somebody else creates them, with the
    /// statements of [`PostgresStore::schema`](crate::PostgresStore::schema).
    Never,
}

/// Fails if keys and errors may hold characters that the database cannot.
pub(super) async fn check_encoding(connection: &mut PgConnection) -> Result<(), MigrateError> {
    let encoding: String = sqlx::query_scalar("SELECT current_setting('server_encoding')")
        .fetch_one(connection)
        .await?;
    if encoding == "UTF8" {
        Ok(())
    } else {
        Err(MigrateError::Encoding(encoding))
    }
}

/// The names with the schema that they mean on this connection.
pub(super) async fn locate(
    connection: &mut PgConnection,
    names: &Names,
) -> Result<Names, ConnectError> {
    if names.schema().is_some() {
        return Ok(names.clone());
    }
    let schema: Option<String> = sqlx::query_scalar(include_str!("where.sql"))
        .bind(names.table())
        .fetch_one(connection)
        .await
        .map_err(MigrateError::from)?;
    names.within(schema.ok_or(MigrateError::NoSchema)?)
}

/// Creates the tables if they are missing and this is asked for; checks their version.
pub(super) async fn migrate(
    connection: &mut PgConnection,
    names: &Names,
    migrate: Migrate,
) -> Result<(), MigrateError> {
    // First without the lock: most starts find everything in place.
    let version = match (version(connection, names).await?, migrate) {
        (Some(version), _) => version,
        (None, Migrate::AtStart) => create(connection, names).await?,
        (None, Migrate::Never) => return Err(MigrateError::Missing(names.to_string())),
    };
    if version != KNOWN {
        return Err(MigrateError::Version(version));
    }
    // Tables that an earlier version of the program has created lack this column, which every claim writes.
    if !has_created_at(connection, names).await? {
        match migrate {
            Migrate::AtStart => complete(connection, names).await?,
            Migrate::Never => return Err(MigrateError::Outdated(names.to_string())),
        }
    }
    // They lack the tables of the outbox or of streams, too, or what moves marks. Who has no right to create them can
    // do without, as long as no handler publishes or reads a stream: a worker looks.
    if migrate == Migrate::AtStart
        && !has_all(connection, names).await?
        && let Err(error) = complete(connection, names).await
    {
        tracing::debug!(error = %ErrorChain::of(&error), "what the outbox and streams need could not be created");
    }
    Ok(())
}

async fn has_created_at(connection: &mut PgConnection, names: &Names) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(names.put_into(include_str!("has_created_at.sql")))
        .fetch_one(connection)
        .await
}

async fn has_all(connection: &mut PgConnection, names: &Names) -> Result<bool, sqlx::Error> {
    let there = "SELECT to_regclass('idem_records_outbox') IS NOT NULL
        AND to_regclass('idem_records_streams') IS NOT NULL
        AND to_regprocedure('idem_records_move_mark(text, bigint, bigint, bigint)') IS NOT NULL";
    sqlx::query_scalar(names.put_into(there))
        .fetch_one(connection)
        .await
}

/// Creates the tables in a transaction and under a lock, where no other process does.
async fn create(connection: &mut PgConnection, names: &Names) -> Result<i64, MigrateError> {
    // A snapshot from before the lock would not show what another process has created.
    let mut transaction = connection.begin_with(READ_COMMITTED).await?;
    lock(&mut transaction, names).await?;
    if let Some(version) = version(&mut transaction, names).await? {
        return Ok(version);
    }
    let created = create_missing(&mut transaction, names).await;
    created.map_err(|error| MigrateError::Refused(names.to_string(), error))?;
    transaction.commit().await?;
    Ok(KNOWN)
}

/// Creates what tables of an earlier version of the program lack; nothing that is there is changed
/// but the functions, which are the same. Workers may be at the tables meanwhile.
pub(super) async fn complete(
    connection: &mut PgConnection,
    names: &Names,
) -> Result<(), MigrateError> {
    let mut tries = 0;
    loop {
        let completed = try_to_complete(connection, names).await;
        tries += 1;
        match completed {
            Err(MigrateError::Incomplete(_, error)) if is_locked(&error) && tries < TRIES => {
                tokio::time::sleep(PAUSE).await;
            }
            completed => return completed,
        }
    }
}

/// How often a table is tried that a transaction has in use, and how long the others can use it between two tries.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(200);

async fn try_to_complete(connection: &mut PgConnection, names: &Names) -> Result<(), MigrateError> {
    let mut transaction = connection.begin_with(READ_COMMITTED).await?;
    lock(&mut transaction, names).await?;
    // Everybody who comes later waits behind whoever waits for a table's lock. A handler's transaction may take
    // minutes.
    sqlx::query("SET LOCAL lock_timeout = '200ms'")
        .execute(&mut *transaction)
        .await?;
    let completed = create_missing(&mut transaction, names).await;
    completed.map_err(|error| MigrateError::Incomplete(names.to_string(), error))?;
    Ok(transaction.commit().await?)
}

fn is_locked(error: &sqlx::Error) -> bool {
    let code = error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| code == "55P03")
}

/// Locks the tables' name until the transaction ends, and keeps the server from telling what is there already.
async fn lock(connection: &mut PgConnection, names: &Names) -> Result<(), sqlx::Error> {
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0)),
        set_config('client_min_messages', 'warning', true)";
    sqlx::query(lock)
        .bind(names.to_string())
        .execute(connection)
        .await
        .map(drop)
}

async fn create_missing(connection: &mut PgConnection, names: &Names) -> Result<(), sqlx::Error> {
    // Asked first: even for a schema that exists, creating it needs a right that few roles have.
    let there: bool = sqlx::query_scalar("SELECT to_regnamespace(quote_ident($1)) IS NOT NULL")
        .bind(names.schema())
        .fetch_one(&mut *connection)
        .await?;
    if !there && let Some(statement) = names.create_schema() {
        sqlx::raw_sql(statement).execute(&mut *connection).await?;
    }
    let tables = names.put_into_script(include_str!("schema.sql"));
    sqlx::raw_sql(tables).execute(connection).await.map(drop)
}

/// The version of the tables, if they are there.
async fn version(
    connection: &mut PgConnection,
    names: &Names,
) -> Result<Option<i64>, MigrateError> {
    let there: bool = sqlx::query_scalar(names.put_into(include_str!("there.sql")))
        .fetch_one(&mut *connection)
        .await?;
    if !there {
        return Ok(None);
    }
    let version = sqlx::query_scalar(names.put_into(include_str!("version.sql")));
    let version = version.fetch_optional(connection).await;
    version.map_err(|error| MigrateError::unusable(names, error))
}

/// Why the tables cannot be used. Each message contains the driver's words: with the driver's error as its source, they
/// would be told twice.
#[derive(Debug, thiserror::Error)]
pub(super) enum MigrateError {
    #[error("the tables are version {0}, this program knows version {KNOWN}")]
    Version(i64),
    #[error("the role's `search_path` names no schema that exists; name one for the store")]
    NoSchema,
    #[error(
        "the tables of {0} are not there: run the statements of `PostgresStore::schema`, which `idem \
         migrate --print` prints, or let the store create them, or `idem migrate`"
    )]
    Missing(String),
    #[error(
        "the tables of {0} are of an earlier version: run the statements of `PostgresStore::schema`, \
         which `idem migrate --print` prints, or let their owner run `idem migrate`"
    )]
    Outdated(String),
    #[error("the tables of {0} are not there, and could not be created: {1}")]
    Refused(String, sqlx::Error),
    #[error(
        "the tables of {0} lack what this version needs, and it could not be created ({1}): let \
         their owner run `idem migrate`"
    )]
    Incomplete(String, sqlx::Error),
    #[error(
        "the tables of {0} lack what this version needs ({1}): run the statements of `PostgresStore::schema`, which `idem \
         migrate --print` prints, or let their owner run `idem migrate`"
    )]
    Lacking(String, sqlx::Error),
    #[error("the tables of {0} cannot be used by this program or by this role: {1}")]
    Unusable(String, sqlx::Error),
    #[error(
        "the database's encoding is `{0}`, which lacks characters that keys and errors may have: \
         use a database with the encoding UTF8"
    )]
    Encoding(String),
    #[error("{0}")]
    Postgres(sqlx::Error),
}

impl MigrateError {
    /// Why a statement of this version's failed.
    pub(super) fn unusable(names: &Names, error: sqlx::Error) -> Self {
        let code = error
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code);
        match code.as_deref() {
            // undefined_table, undefined_function: those can be created beside what is there.
            Some("42P01" | "42883") => Self::Lacking(names.to_string(), error),
            _ => Self::Unusable(names.to_string(), error),
        }
    }
}

impl From<sqlx::Error> for MigrateError {
    fn from(error: sqlx::Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<MigrateError> for ConnectError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::Version(found) => Self::SchemaVersion {
                found,
                known: KNOWN,
            },
            MigrateError::Refused(_, error)
            | MigrateError::Unusable(_, error)
            | MigrateError::Lacking(_, error)
            | MigrateError::Postgres(error)
                if pooler::forgets(&error) =>
            {
                Self::ForgetfulPooler
            }
            other => Self::Unavailable(Box::new(other)),
        }
    }
}
