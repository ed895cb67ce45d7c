//! Finds the database's error behind a handler's.

use std::error::Error;

use sqlx::{error::DatabaseError, postgres::PgDatabaseError};

use super::Table;

/// `unique_violation`
const UNIQUE: &str = "23505";

/// Whether this error, or what caused it, is the violation of this constraint, of this table as far
/// as it is known. By what the server tells of it, never by its words.
pub(super) fn violates(
    error: &(dyn Error + 'static),
    constraint: &str,
    table: Option<&Table>,
) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if said(error).is_some_and(|said| is_of(said, constraint, table)) {
            return true;
        }
        next = error.source();
    }
    false
}

/// What the server said, if this is it.
fn said<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a PgDatabaseError> {
    let by_the_driver = || error.downcast_ref::<sqlx::Error>()?.as_database_error();
    // All that is left in the chain where an enum passes the driver's error on as its own.
    let boxed = || {
        error
            .downcast_ref::<Box<dyn DatabaseError>>()
            .map(|it| &**it)
    };
    let said = by_the_driver().or_else(boxed);
    match said {
        Some(said) => said.try_downcast_ref(),
        None => error.downcast_ref(),
    }
}

/// Whether this is the violation of the constraint.
pub(super) fn is_of(said: &PgDatabaseError, constraint: &str, table: Option<&Table>) -> bool {
    let is_of_the_table =
        |table: &Table| said.schema() == Some(&table.schema) && said.table() == Some(&table.name);
    said.code() == UNIQUE
        && said.constraint() == Some(constraint)
        && table.is_none_or(is_of_the_table)
}
