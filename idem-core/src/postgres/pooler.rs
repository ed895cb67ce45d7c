//! Whether there is a pooler in between that lends each transaction another server process.

use sqlx::PgConnection;

const WHO: &str = "SELECT pg_backend_pid()";

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
    error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .is_some_and(|code| matches!(&*code, "26000" | "42P05"))
}
