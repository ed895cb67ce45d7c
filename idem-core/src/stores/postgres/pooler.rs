//! Whether there is a pooler in between that lends each transaction another server process.

use sqlx::{AssertSqlSafe, PgConnection, Row as _, postgres::PgDatabaseError};

use crate::random;

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

/// The server process behind a connection. The question is not prepared, because a pooler may forget that.
async fn process(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql(WHO).fetch_one(connection).await?.try_get(0)
}

/// Whether a statement is found again that was prepared: not if a pooler lends another server process, and forgets what
/// was prepared. Then it may also fail, as [`forgets`] knows.
pub(super) async fn keeps_statements(
    one: &mut PgConnection,
    other: &mut PgConnection,
) -> Result<bool, sqlx::Error> {
    // Of a text that nobody else has: a client names its statements by numbers, and what another one has left there by
    // that name would answer.
    let nonce = format!("{:032x}", u128::from_be_bytes(random::bytes()));
    let text = format!("SELECT '{nonce}'");
    let ask = || sqlx::query(AssertSqlSafe(text.clone()));
    ask().execute(&mut *one).await?;
    // A pooler lends the process that was used last, and for as long as the transaction lasts.
    sqlx::raw_sql("BEGIN").execute(&mut *other).await?;
    let again = ask().fetch_one(one).await;
    sqlx::raw_sql("ROLLBACK").execute(other).await?;
    let answer = again?.try_get::<String, _>(0);
    Ok(answer.is_ok_and(|answer| answer == nonce))
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
