//! Whether this role may send what a worker sends, and the tables answer as this version's do.
//!
//! The builder asks once, before the store is there: a right that is missing is then an error at
//! the start, and not of the first message.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, SqlStr};

use super::{
    atomic,
    call::{Ask, KeyCall as _},
    claims::ClaimCall,
    exchange::Nonce,
    group,
    link::Statement,
    migration::{MigrateError, READ_COMMITTED},
    names::Names,
    sql::Sql,
    writes::WriteCall,
};
use crate::{
    handler::{FencingToken, Outcome},
    message::Key,
    store::{Completion, Lease},
};

/// Sends every statement that a worker sends outside of a handler's transaction. Nothing stays of it, but that a token
/// is passed over.
pub(super) async fn statements(
    connection: &mut PgConnection,
    names: &Names,
    sql: &Sql,
) -> Result<(), MigrateError> {
    let mut transaction = connection.begin_with(READ_COMMITTED).await?;
    let statements = [
        ClaimCall::statement(&[], Ask::First, sql, 0),
        ClaimCall::statement(&[], Ask::Again, sql, 0),
        WriteCall::statement(&[], Ask::First, sql, 0),
        sqlx::query(sql.purge.clone())
            .bind(0_i64)
            .bind(0_i64)
            .bind(None::<i64>),
        atomic::extension(sql, &nobodys(), Duration::ZERO, 0),
        // A claim of nothing asks for no token.
        sqlx::query(names.put_into("SELECT nextval('idem_records_token')")),
    ];
    for statement in statements {
        let answer = statement.fetch_all(&mut *transaction).await;
        answer.map_err(|error| MigrateError::unusable(names, error))?;
    }
    Ok(transaction.rollback().await?)
}

/// Carries each of these statements out in a transaction that begins like this. Nothing stays of it.
pub(super) async fn rehearse(
    connection: &mut PgConnection,
    begin: &SqlStr,
    statements: Vec<Statement>,
) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin_with(begin.clone()).await?;
    // Another store may be creating tables right now. This one waits for it as long as for any answer, instead of
    // failing at the lock.
    transaction.execute("SET LOCAL lock_timeout = 0").await?;
    for statement in statements {
        transaction.execute(statement).await?;
    }
    transaction.rollback().await
}

/// Begins a transaction and completes a lease in it that nobody has: fails if the server
/// objects to anything else.
pub(super) async fn endings(
    connection: &mut PgConnection,
    names: &Names,
    sql: &Sql,
    begin: &str,
) -> Result<(), MigrateError> {
    let unusable = |error| MigrateError::unusable(names, error);
    sqlx::raw_sql(AssertSqlSafe(begin.to_owned()))
        .execute(&mut *connection)
        .await
        .map_err(unusable)?;
    let (lease, outcome) = (nobodys(), Outcome::default());
    let completion = Completion::new(&lease, &outcome, Duration::ZERO);
    let completion = atomic::completion(sql, &completion, 0, Nonce::new());
    match sqlx::raw_sql(AssertSqlSafe(completion))
        .execute(&mut *connection)
        .await
    {
        Err(error) if !atomic::is_fenced(&error) => return Err(unusable(error)),
        _ => {}
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await?;
    group::check(connection, sql, begin).await.map_err(unusable)
}

/// A lease under which nothing was ever claimed.
fn nobodys() -> Lease {
    let key = Key::new("idem", "nobody's").expect("it is short");
    Lease::new(key, FencingToken::new(i64::MIN), 0, false)
}
