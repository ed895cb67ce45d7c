//! Rows of the outbox.
//!
//! The stores' `outbox` modules call it with rows of `take.sql`, `entries.sql`, `troubled.sql`, `counts.sql` and
//! `glance.sql`.

use std::time::Duration;

use super::{ReadRow, there, undecoded};
use crate::{
    handler::{OutgoingContent, OutgoingId},
    store::outbox::{OutboxCounts, OutboxEntry, OutboxGlance, OutboxRow, OutboxState, Taken},
};

pub(in crate::stores) fn taken(row: &impl ReadRow) -> Result<Taken, sqlx::Error> {
    let in_lane = row.flag("in_lane")?;
    Ok(Taken::new(id(row)?, attempts(row)?, in_lane, content(row)?))
}

pub(in crate::stores) fn content(row: &impl ReadRow) -> Result<OutgoingContent, sqlx::Error> {
    Ok(OutgoingContent {
        message_id: there(row.text("message_id")?)?.to_owned(),
        target: there(row.text("target")?)?.to_owned(),
        head: there(row.bytes("head")?)?.to_vec(),
        body: there(row.bytes("body")?)?.to_vec(),
    })
}

pub(in crate::stores) fn counts(row: &impl ReadRow) -> Result<OutboxCounts, sqlx::Error> {
    let number = |i| number_at(row, i);
    let oldest = Duration::from_micros(number(3)?);
    Ok(OutboxCounts::new(
        number(0)?,
        number(1)?,
        number(2)?,
        oldest,
    ))
}

pub(in crate::stores) fn glance(row: &impl ReadRow) -> Result<OutboxGlance, sqlx::Error> {
    let untaken = Duration::from_micros(number_at(row, 4)?);
    Ok(OutboxGlance::new(counts(row)?, untaken))
}

pub(in crate::stores) fn entry(row: &impl ReadRow) -> Result<OutboxEntry, sqlx::Error> {
    let row = OutboxRow {
        id: id(row)?,
        message_id: there(row.text("message_id")?)?.to_owned(),
        target: there(row.text("target")?)?.to_owned(),
        lane: row.text("lane")?.map(str::to_owned),
        state: match there(row.text("state")?)? {
            "dead" => OutboxState::Dead,
            "later" => OutboxState::Later,
            _ => OutboxState::Waiting,
        },
        due_micros: row.number("due")?,
        attempts: attempts(row)?,
        error: row.text("error")?.map(str::to_owned),
        created_micros: row.number("created")?,
        bytes: row.number("bytes")?.try_into().unwrap_or(0),
    };
    Ok(row.into())
}

fn id(row: &impl ReadRow) -> Result<OutgoingId, sqlx::Error> {
    there(row.text("id")?)?.parse().map_err(undecoded)
}

fn attempts(row: &impl ReadRow) -> Result<u32, sqlx::Error> {
    Ok(row.attempts()?.try_into().unwrap_or(0))
}

fn number_at(row: &impl ReadRow, column: usize) -> Result<u64, sqlx::Error> {
    Ok(row.number_at(column)?.try_into().unwrap_or(0))
}
