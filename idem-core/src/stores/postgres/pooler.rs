//! Whether there is a pooler in between that lends each transaction another server process.

use sqlx::{PgConnection, Row as _, postgres::PgDatabaseError};

const WHO: &str = "SELECT pg_backend_pid()";

/// How often two connections are asked whose process serves them: as many processes may take turns at a pooler.
const ROUNDS: usize = 8;

/// Whose the server process is that serves a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerProcess {
    /// Each connection has one to itself.
    Own,
    /// A connection has one for a transaction. What it sets for its session, others find.
    Shared,
}

/// Whose the processes of these two connections are.
pub(super) async fn server_process(
    one: &mut PgConnection,
    other: &mut PgConnection,
) -> Result<ServerProcess, sqlx::Error> {
    let mine = process(one).await?;
    // A pooler lends the process that was used last, and for as long as the transaction lasts.
    sqlx::raw_sql("BEGIN").execute(&mut *other).await?;
    let theirs = process(other).await?;
    let still_mine = process(one).await?;
    sqlx::raw_sql("ROLLBACK").execute(&mut *other).await?;
    let mut is_own = mine == still_mine && mine != theirs;
    for _ in 0..ROUNDS {
        is_own &= process(other).await? == theirs;
    }
    Ok(if is_own {
        ServerProcess::Own
    } else {
        ServerProcess::Shared
    })
}

/// Not prepared, because a pooler may forget that.
async fn process(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql(WHO).fetch_one(connection).await?.try_get(0)
}

/// Fails as a statement does that was prepared on another server process, if there is such a pooler
/// and it forgets what was prepared.
pub(super) async fn check(
    one: &mut PgConnection,
    other: &mut PgConnection,
) -> Result<(), sqlx::Error> {
    sqlx::query(WHO).execute(&mut *one).await?;
    // A pooler lends the process that was used last, and for as long as the transaction lasts.
    sqlx::raw_sql("BEGIN").execute(&mut *other).await?;
    let again = sqlx::query(WHO).execute(one).await;
    sqlx::raw_sql("ROLLBACK").execute(other).await?;
    again.map(drop)
}

/// Whether an error is that of a prepared statement that is not there, or that somebody else has
/// left there.
pub(super) fn forgets(error: &sqlx::Error) -> bool {
    let error = error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    error.is_some_and(|error| match error.code() {
        "26000" | "42P05" => true,
        // One of the same name that takes other parameters. PgBouncer's own errors have this code, too,
        // and no routine.
        "08P01" => error.routine() == Some("exec_bind_message"),
        _ => false,
    })
}
