//! Whether a role may do what the end of an atomic handler needs.

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection};

use super::{ending, statement};
use crate::{
    handler::Outcome,
    stores::postgres::{
        exchange::Nonce,
        group,
        migration::{MigrateError, nobodys},
        names::Names,
        sql::Sql,
    },
};

/// Begins a transaction and completes a lease in it that nobody has: fails if the server
/// objects to anything else.
pub(in crate::stores::postgres) async fn check(
    connection: &mut PgConnection,
    names: &Names,
    sql: &Sql,
    begin: &str,
) -> Result<(), MigrateError> {
    let unusable = |error| MigrateError::Unusable(names.to_string(), error);
    sqlx::raw_sql(AssertSqlSafe(begin.to_owned()))
        .execute(&mut *connection)
        .await
        .map_err(unusable)?;
    let (lease, outcome) = (nobodys(), Outcome::default());
    let completion = statement::commit(
        &sql.commit,
        &lease,
        &outcome,
        Duration::ZERO,
        0,
        Nonce::new(),
    );
    match sqlx::raw_sql(AssertSqlSafe(completion))
        .execute(&mut *connection)
        .await
    {
        Err(error) if !ending::is_fenced(&error) => return Err(unusable(error)),
        _ => {}
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await?;
    group::check(connection, sql, begin).await.map_err(unusable)
}
