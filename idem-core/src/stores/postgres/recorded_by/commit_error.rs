//! What the server's answer means to a transaction that was to leave an entity.

use sqlx::postgres::PgDatabaseError;

use super::{Table, violation};
use crate::{
    store::{Finished, StoreError},
    stores::postgres::atomic,
};

/// The SQLSTATE with which `idem_records_recorded` refuses a transaction that leaves no entity.
const NONE_LEFT: &str = "IDEM3";

/// The one with which it refuses a transaction that finds the entity there, left by another.
const THERE_BEFORE: &str = "IDEM4";

/// What an error means that came before the commit was answered.
pub(super) fn read_commit_error(
    error: sqlx::Error,
    constraint: &str,
    table: &Table,
) -> Result<Finished, StoreError> {
    let said = error
        .as_database_error()
        .and_then(|said| said.try_downcast_ref::<PgDatabaseError>());
    if let Some(said) = said {
        if violation::is_of(said, constraint, Some(table)) {
            return Ok(Finished::Violated {
                error: said.message().to_owned(),
            });
        }
        if said.code() == THERE_BEFORE {
            return Ok(Finished::Violated {
                error: there_before(constraint, table),
            });
        }
        if said.code() == NONE_LEFT {
            return Ok(Finished::Refused {
                error: none_left(constraint, table),
            });
        }
    }
    atomic::read_commit_error(error)
}

fn none_left(constraint: &str, table: &Table) -> String {
    format!(
        "the handler returned `Ok` and left no row in {} that has the message's key in the columns \
         of `{constraint}` ({}), so a copy of the message would run again: insert it, without \
         `ON CONFLICT`",
        table.title(),
        table.names()
    )
}

fn there_before(constraint: &str, table: &Table) -> String {
    format!(
        "the handler returned `Ok`, and the row in {} that has the message's key in the columns of \
         `{constraint}` ({}) was there before and is none that it has inserted, so what it did was \
         rolled back: let the insert fail where the row is there, without `ON CONFLICT`",
        table.title(),
        table.names()
    )
}
