//! A record as a row of the table, and back.

use std::{error::Error, fmt::Write as _, sync::Arc};

use sqlx::{
    Row, Sqlite,
    query::Query,
    sqlite::{SqliteArguments, SqliteRow},
};

use crate::{
    handler::Outcome,
    message::{Fingerprint, Key},
    store::{
        Owner,
        rules::record::{Reason, Record, State},
    },
};

type Unreadable = Box<dyn Error + Send + Sync>;

/// Reads a row of `load.sql`.
pub(super) fn read(row: &SqliteRow) -> Result<Record, Unreadable> {
    Ok(Record {
        token: row.try_get("token")?,
        attempts: row.try_get::<i64, _>("attempts")?.try_into()?,
        in_doubt: row.try_get("in_doubt")?,
        owner: Owner::from_bytes(row.try_get::<&[u8], _>("owner")?.try_into()?),
        fingerprint: row
            .try_get::<Option<&[u8]>, _>("fingerprint")?
            .map(|bytes| bytes.try_into().map(Fingerprint::from_bytes))
            .transpose()?,
        retention: row.try_get("retention")?,
        forget_at: row.try_get("forget_at")?,
        state: read_state(row)?,
    })
}

fn read_state(row: &SqliteRow) -> Result<State, Unreadable> {
    match row.try_get("state")? {
        "in_progress" => Ok(State::InProgress {
            lease_ends: row.try_get("lease_ends")?,
        }),
        "completed" => Ok(State::Completed {
            outcome: Outcome::new(row.try_get::<Vec<u8>, _>("outcome")?),
        }),
        "failed" => Ok(State::Failed {
            reason: Reason::read(row.try_get("reason")?)?,
            error: row.try_get("error")?,
            not_before: row.try_get("not_before")?,
        }),
        other => Err(format!("`{other}` is no state").into()),
    }
}

type Statement = Query<'static, Sqlite, SqliteArguments>;

/// Binds a record's row to `save.sql`.
pub(super) fn bind(statement: Statement, key: &Key, record: &Record, now: i64) -> Statement {
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
        .bind(now)
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
