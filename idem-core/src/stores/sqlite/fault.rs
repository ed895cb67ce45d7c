//! What an error of SQLite means for the one who asked.

use std::sync::Arc;

use super::log_sync::SyncError;
use crate::store::StoreError;

/// What went wrong for a whole batch, told to each of its callers.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Fault {
    /// The driver's error. Its words are in this message: as a source of its own, it would be told twice.
    #[error("{0}")]
    Sqlite(Arc<sqlx::Error>),
    /// It is committed, and nobody knows whether it is on the disk.
    #[error(transparent)]
    NotSynced(#[from] SyncError),
}

impl Fault {
    pub(super) fn unavailable(&self) -> StoreError {
        StoreError::unavailable(self.clone())
    }

    /// Whether the connection is as good as before.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Sqlite(error) if is_busy(error))
    }

    /// Whether a sync of SQLite's own has failed.
    pub(super) fn is_failed_sync(&self) -> bool {
        matches!(self, Self::Sqlite(error) if is_failed_sync(error))
    }
}

/// What a caller is told if nothing is known about its call, from anything that can become a [`Fault`].
pub(super) fn unavailable(fault: impl Into<Fault>) -> StoreError {
    fault.into().unavailable()
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Sqlite(Arc::new(error))
    }
}

/// The disk has not taken what SQLite wrote (`SQLITE_IOERR_FSYNC`).
pub(super) fn is_failed_sync(error: &sqlx::Error) -> bool {
    code(error) == Some(1034)
}

/// Another connection holds a lock (`SQLITE_BUSY`, `SQLITE_LOCKED`).
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(5 | 6))
}

/// The database is fine and refuses this one row (`SQLITE_TOOBIG`, `SQLITE_CONSTRAINT`,
/// `SQLITE_MISMATCH`).
pub(super) fn is_of_one_row(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(18..=20))
}

/// The database is fine and refuses what the handler has done: a lock it could not get, a
/// constraint, a trigger's objection, a statement that makes no sense.
pub(super) fn is_refusal(error: &sqlx::Error) -> bool {
    const ERROR: i32 = 1;
    const READONLY: i32 = 8;
    is_busy(error) || is_of_one_row(error) || matches!(primary_code(error), Some(ERROR | READONLY))
}

/// The primary result code: extended ones carry it in their lowest byte.
fn primary_code(error: &sqlx::Error) -> Option<i32> {
    code(error).map(|code| code & 0xff)
}

/// The extended result code.
fn code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}
