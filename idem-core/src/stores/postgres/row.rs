//! What a statement about a batch says of each call, and how this database's columns hold their values.

use sqlx::{Row, postgres::PgRow};

use super::instant::Instant;
use crate::{
    store::rules::record::Record,
    stores::rows::{self, ReadRow, Unreadable},
};

/// What a statement says about one call of its batch.
pub(super) struct BatchRow {
    /// Whether the call changed the record.
    pub(super) written: bool,
    /// The record as the statement wrote it; if it wrote none, as its snapshot saw it.
    pub(super) record: Result<Option<Record>, Unreadable>,
    pub(super) now: i64,
}

impl BatchRow {
    /// The row of a key that has none: the snapshot saw no record. One may have been written since, so a claim is
    /// asked again.
    pub(super) const NOTHING: Self = Self {
        written: false,
        record: Ok(None),
        now: 0,
    };
}

/// Reads a row, and the key that it is about.
pub(super) fn of_call(row: &PgRow) -> Result<(&str, BatchRow), sqlx::Error> {
    let read = BatchRow {
        written: row.try_get("written")?,
        record: rows::record(row).map(Some),
        now: rows::time(row, "now")?,
    };
    Ok((row.try_get("key")?, read))
}

impl ReadRow for PgRow {
    // The server counts from 2000.
    const EPOCH: i64 = 946_684_800_000_000;

    fn text(&self, column: &str) -> Result<Option<&str>, sqlx::Error> {
        self.try_get(column)
    }

    fn bytes(&self, column: &str) -> Result<Option<&[u8]>, sqlx::Error> {
        self.try_get(column)
    }

    fn flag(&self, column: &str) -> Result<bool, sqlx::Error> {
        self.try_get(column)
    }

    fn number(&self, column: &str) -> Result<i64, sqlx::Error> {
        self.try_get(column)
    }

    fn number_at(&self, column: usize) -> Result<i64, sqlx::Error> {
        self.try_get(column)
    }

    fn attempts(&self) -> Result<i64, sqlx::Error> {
        self.try_get::<i32, _>("attempts").map(i64::from)
    }

    fn time(&self, column: &str) -> Result<Option<i64>, sqlx::Error> {
        let time: Option<Instant> = self.try_get(column)?;
        Ok(time.map(|time| time.0))
    }
}
