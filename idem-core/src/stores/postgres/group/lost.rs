//! What a fault means for a group.

use sqlx::{
    error::DatabaseError,
    postgres::{PgDatabaseError, PgSeverity},
};

use crate::stores::postgres::{atomic::OVERDUE, fault::Fault};

/// How a group's transaction was lost.
#[derive(Debug)]
pub(super) enum Lost {
    /// All of it was rolled back.
    RolledBack,
    /// The last handler has ended it by itself; or the server has ended the session, in this transaction or in one
    /// that a handler has begun behind a commit of its own.
    Ended,
    /// The connection is lost, and perhaps it was committed: by us, or by a handler by itself.
    Unknown(Fault),
}

/// What a fault means that came before the answer to the commit.
pub(super) fn of(fault: Fault) -> Lost {
    if is_own_end(&fault) || has_code(&fault, &OVERDUE) {
        Lost::Ended
    } else if has_objected(&fault) {
        Lost::RolledBack
    } else {
        Lost::Unknown(fault)
    }
}

/// Whether the last handler went on after an error, which has aborted the transaction.
pub(super) fn is_aborted(fault: &Fault) -> bool {
    has_code(fault, &["25P02"])
}

/// Whether there is no such savepoint or transaction any more.
fn is_own_end(fault: &Fault) -> bool {
    has_code(fault, &["3B001", "25P01", "IDEM1"])
}

/// Whether the session goes on.
fn has_objected(fault: &Fault) -> bool {
    let said = said(fault).and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    said.is_some_and(|error| error.severity() == PgSeverity::Error)
}

fn has_code(fault: &Fault, codes: &[&str]) -> bool {
    let code = said(fault).and_then(DatabaseError::code);
    code.is_some_and(|code| codes.contains(&&*code))
}

fn said(fault: &Fault) -> Option<&dyn DatabaseError> {
    match fault {
        Fault::Said(error) => error.as_database_error(),
        Fault::Silent(_) | Fault::Resting(_) => None,
    }
}
