//! What the stores that speak SQL read from their rows: records, sessions, sequences, what an operator is shown, the
//! outbox.
//!
//! `postgres` and `sqlite` call it with rows of their own statements, whose columns have the same names in both. They
//! differ only in how a column holds a value, which their [`ReadRow`] says. What must stay true: what cannot be read is
//! an error, never another value.

use std::error::Error;

use sqlx::error::UnexpectedNullError;

use crate::{
    handler::Outcome,
    message::Fingerprint,
    store::{
        Owner,
        rules::{
            record::{Reason, Record, State},
            sequence::{Sequence, Standing},
            session::Session,
        },
    },
};

pub(super) mod operator;
pub(super) mod outbox;

/// Why a row tells of nothing.
pub(super) type Unreadable = Box<dyn Error + Send + Sync>;

/// A row of one of the databases. What is `None` is NULL there.
pub(super) trait ReadRow {
    /// How long after 1970 the database's times begin, in microseconds.
    const EPOCH: i64;

    fn text(&self, column: &str) -> Result<Option<&str>, sqlx::Error>;
    fn bytes(&self, column: &str) -> Result<Option<&[u8]>, sqlx::Error>;
    fn flag(&self, column: &str) -> Result<bool, sqlx::Error>;
    fn number(&self, column: &str) -> Result<i64, sqlx::Error>;
    /// The number in a column without a name.
    fn number_at(&self, column: usize) -> Result<i64, sqlx::Error>;
    /// The number in the column `attempts`.
    fn attempts(&self) -> Result<i64, sqlx::Error>;
    /// Microseconds since [`EPOCH`](Self::EPOCH).
    fn time(&self, column: &str) -> Result<Option<i64>, sqlx::Error>;
}

/// What is never NULL, unless somebody has written it by hand.
fn there<T>(value: Option<T>) -> Result<T, sqlx::Error> {
    value.ok_or_else(|| sqlx::Error::Decode(UnexpectedNullError.into()))
}

/// A time that is never NULL.
pub(super) fn time(row: &impl ReadRow, column: &str) -> Result<i64, sqlx::Error> {
    there(row.time(column)?)
}

/// A number that the protocol counts; an error if somebody has written a negative one.
pub(super) fn unsigned(row: &impl ReadRow, column: &str) -> Result<u64, sqlx::Error> {
    u64::try_from(row.number(column)?).map_err(undecoded)
}

/// The reverse: as a column holds it. One that is greater than a column can hold is beyond every window and ahead of
/// every sequence, so nothing is ever stored under it.
pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn undecoded(error: impl Into<Unreadable>) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}

/// A record, but for the error of its last attempt and its two times for people: nothing that a claim or a write
/// decides depends on that, so a statement may leave it with the server.
pub(super) fn record(row: &impl ReadRow) -> Result<Record, Unreadable> {
    Ok(Record {
        token: row.number("token")?,
        attempts: row.attempts()?.try_into()?,
        in_doubt: row.flag("in_doubt")?,
        owner: Owner::from_bytes(there(row.bytes("owner")?)?.try_into()?),
        fingerprint: row
            .bytes("fingerprint")?
            .map(|bytes| bytes.try_into().map(Fingerprint::from_bytes))
            .transpose()?,
        retention: row.number("retention")?,
        forget_at: time(row, "forget_at")?,
        created_at: None,
        written_at: 0,
        state: state(row)?,
    })
}

/// A record with all that is kept of it.
pub(super) fn record_in_full(row: &impl ReadRow) -> Result<Record, Unreadable> {
    let mut record = record(row)?;
    record.created_at = row.time("created_at")?;
    record.written_at = time(row, "updated_at")?;
    if let State::Failed { error, .. } = &mut record.state {
        *error = row.text("error")?.map(str::to_owned);
    }
    Ok(record)
}

fn state(row: &impl ReadRow) -> Result<State, Unreadable> {
    match there(row.text("state")?)? {
        "in_progress" => Ok(State::InProgress {
            lease_ends: time(row, "lease_ends")?,
        }),
        "completed" => Ok(State::Completed {
            outcome: Outcome::new(there(row.bytes("outcome")?)?.to_vec()),
        }),
        "failed" => Ok(State::Failed {
            reason: Reason::read(there(row.text("reason")?)?)?,
            error: None,
            not_before: row.time("not_before")?,
        }),
        other => Err(format!("`{other}` is no state").into()),
    }
}

pub(super) fn session(row: &impl ReadRow) -> Result<Session, sqlx::Error> {
    Ok(Session {
        mark: unsigned(row, "mark")?,
        window: window(row)?,
        life: row.number("life")?,
        ends_at: time(row, "ends_at")?,
    })
}

/// A sequence. In `ahead_since` and `ahead_at` 0 stands for "never".
pub(super) fn sequence(row: &impl ReadRow) -> Result<Sequence, sqlx::Error> {
    Ok(Sequence {
        joined: unsigned(row, "joined")?,
        mark: unsigned(row, "mark")?,
        window: window(row)?,
        ahead_since: time(row, "ahead_since")?,
        ahead_at: time(row, "ahead_at")?,
        look_by: time(row, "look_by")?,
        expires_at: time(row, "expires_at")?,
    })
}

/// How a number of a sequence stands whose record this row tells of; of the outcome, the first byte is enough.
pub(super) fn standing(row: &impl ReadRow, now: i64) -> Standing {
    // The mark waits for what cannot be read, also if a later version has written it: a mark that passed it would
    // remove it, and call a number done that may not be.
    record(row).map_or(Standing::Waiting, |record| Standing::of(Some(&record), now))
}

fn window(row: &impl ReadRow) -> Result<u32, sqlx::Error> {
    u32::try_from(unsigned(row, "window")?).map_err(undecoded)
}
