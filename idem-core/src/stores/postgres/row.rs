//! A row of an answer, as the record that it tells of.

use std::error::Error;

use sqlx::{Row, postgres::PgRow};

use super::instant::Instant;
use crate::{
    handler::Outcome,
    message::Fingerprint,
    store::{
        Owner,
        rules::record::{Reason, Record, State},
    },
};

type Unreadable = Box<dyn Error + Send + Sync>;

/// What a statement says about one call of its batch.
pub(super) struct Told {
    /// Whether the call changed the record.
    pub(super) written: bool,
    /// As the statement wrote it; if it did not, as its snapshot saw it.
    pub(super) record: Result<Option<Record>, Unreadable>,
    pub(super) now: i64,
}

impl Told {
    /// Of a key without a row: the snapshot saw no record. One may have been written since, so a claim is asked again.
    pub(super) const NOTHING: Self = Self {
        written: false,
        record: Ok(None),
        now: 0,
    };
}

/// Reads a row, and the key that it is about.
pub(super) fn told(row: &PgRow) -> Result<(&str, Told), sqlx::Error> {
    let told = Told {
        written: row.try_get("written")?,
        record: read(row).map(Some),
        now: row.try_get::<Instant, _>("now")?.0,
    };
    Ok((row.try_get("key")?, told))
}

/// Reads what a row says of a record, its error included.
pub(super) fn read_in_full(row: &PgRow) -> Result<Record, Unreadable> {
    let mut record = read(row)?;
    if let State::Failed { error, .. } = &mut record.state {
        *error = row.try_get("error")?;
    }
    Ok(record)
}

/// Reads what a row says of a record.
pub(super) fn read(row: &PgRow) -> Result<Record, Unreadable> {
    Ok(Record {
        token: row.try_get("token")?,
        attempts: row.try_get::<i32, _>("attempts")?.try_into()?,
        in_doubt: row.try_get("in_doubt")?,
        owner: Owner::from_bytes(row.try_get::<&[u8], _>("owner")?.try_into()?),
        fingerprint: row
            .try_get::<Option<&[u8]>, _>("fingerprint")?
            .map(|bytes| bytes.try_into().map(Fingerprint::from_bytes))
            .transpose()?,
        retention: row.try_get("retention")?,
        forget_at: row.try_get::<Instant, _>("forget_at")?.0,
        state: read_state(row)?,
    })
}

fn read_state(row: &PgRow) -> Result<State, Unreadable> {
    match row.try_get("state")? {
        "in_progress" => Ok(State::InProgress {
            lease_ends: row.try_get::<Instant, _>("lease_ends")?.0,
        }),
        "completed" => Ok(State::Completed {
            outcome: Outcome::new(row.try_get::<Vec<u8>, _>("outcome")?),
        }),
        "failed" => Ok(State::Failed {
            reason: Reason::read(row.try_get("reason")?)?,
            // Nothing that is decided here depends on it, so it stays with the server.
            error: None,
            not_before: row
                .try_get::<Option<Instant>, _>("not_before")?
                .map(|due| due.0),
        }),
        other => Err(format!("`{other}` is no state").into()),
    }
}
