//! How this database's columns hold their values, and a record as a row of the table.

use std::{fmt::Write as _, sync::Arc};

use sqlx::{
    Row, Sqlite,
    query::Query,
    sqlite::{SqliteArguments, SqliteRow},
};

use crate::{
    handler::Outcome,
    message::Key,
    store::rules::record::{Record, State},
    stores::rows::ReadRow,
};

impl ReadRow for SqliteRow {
    const EPOCH: i64 = 0;

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
        self.try_get("attempts")
    }

    fn time(&self, column: &str) -> Result<Option<i64>, sqlx::Error> {
        self.try_get(column)
    }
}

type Statement = Query<'static, Sqlite, SqliteArguments>;

/// Binds a record's row to `save.sql`.
pub(super) fn bind(statement: Statement, key: &Key, record: &Record) -> Statement {
    let columns = Columns::of(&record.state);
    let fingerprint = record.fingerprint.as_ref();
    statement
        .bind(text(key))
        .bind(columns.state)
        .bind(columns.reason)
        .bind(columns.error)
        .bind(i64::from(record.attempts))
        .bind(record.in_doubt)
        .bind(record.token)
        .bind(record.owner.as_bytes().to_vec())
        .bind(fingerprint.map(|fingerprint| fingerprint.as_bytes().to_vec()))
        .bind(columns.outcome.map(|outcome| outcome.as_bytes().to_vec()))
        .bind(columns.lease_ends)
        .bind(columns.not_before)
        .bind(record.retention)
        .bind(record.created_at)
        .bind(record.written_at)
        .bind(record.forget_at)
}

/// A state, spread over its columns.
#[derive(Default)]
struct Columns<'a> {
    state: &'static str,
    reason: Option<&'static str>,
    error: Option<String>,
    outcome: Option<&'a Outcome>,
    lease_ends: Option<i64>,
    not_before: Option<i64>,
}

impl<'a> Columns<'a> {
    fn of(state: &'a State) -> Self {
        match state {
            State::InProgress { lease_ends } => Self {
                state: "in_progress",
                lease_ends: Some(*lease_ends),
                ..Self::default()
            },
            State::Completed { outcome } => Self {
                state: "completed",
                outcome: Some(outcome),
                ..Self::default()
            },
            State::Failed {
                reason,
                error,
                not_before,
            } => Self {
                state: "failed",
                reason: Some(reason.as_str()),
                error: error.clone(),
                not_before: *not_before,
                ..Self::default()
            },
        }
    }
}

/// A key as a parameter.
pub(super) fn text(key: &Key) -> Arc<str> {
    key.as_str().into()
}

/// Bytes as hexadecimal digits: JSON, in which statements take their lists, cannot hold bytes.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(hex, "{byte:02x}").expect("a string takes all that is written");
    }
    hex
}
