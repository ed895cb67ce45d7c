//! What an error means for a group.

use sqlx::{
    error::DatabaseError,
    postgres::{PgDatabaseError, PgSeverity},
};

use crate::postgres::fault::Fault;

/// How a transaction of a group was lost.
#[derive(Debug)]
pub(super) enum Lost {
    /// All of it was rolled back.
    RolledBack,
    /// The last handler has ended it by itself.
    Ended,
    /// Perhaps it was committed.
    Unknown(Fault),
}

/// What an error means of a statement between two members.
pub(super) fn between(error: &sqlx::Error) -> Lost {
    if is_own_end(error) {
        Lost::Ended
    } else {
        // No commit was sent: if the connection has gone, so has what was written.
        Lost::RolledBack
    }
}

/// What an error means that came before the commit was answered.
pub(super) fn of_commit(error: sqlx::Error) -> Lost {
    if is_own_end(&error) {
        return Lost::Ended;
    }
    let said = error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    match said {
        Some(said) if said.severity() == PgSeverity::Error => Lost::RolledBack,
        _ => Lost::Unknown(error.into()),
    }
}

/// Whether the last handler went on after an error that has aborted the transaction.
pub(super) fn is_aborted(error: &sqlx::Error) -> bool {
    has_code(error, &["25P02"])
}

/// Whether there is no such savepoint or transaction any more.
fn is_own_end(error: &sqlx::Error) -> bool {
    has_code(error, &["3B001", "25P01", "IDEM1"])
}

fn has_code(error: &sqlx::Error, codes: &[&str]) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| codes.contains(&&*code))
}
