//! Sequences and numbers as columns hold them.
//!
//! `step` and `statements` call these. A number of the protocol is unsigned, a column is a signed
//! `bigint`; a value that does not fit is an error when it is read, never another number.

use sqlx::{Row, postgres::PgRow};

use crate::{
    store::rules::sequence::{Sequence, Standing},
    stores::postgres::instant::Instant,
};

/// A sequence from its row. Times are microseconds since 2000; in `ahead_since` and `ahead_at` 0
/// stands for "never".
pub(super) fn read(row: &PgRow) -> Result<Sequence, sqlx::Error> {
    let instant = |column: &str| row.try_get::<Instant, _>(column).map(|instant| instant.0);
    let window = u32::try_from(unsigned(row, "window")?);
    Ok(Sequence {
        joined: unsigned(row, "joined")?,
        mark: unsigned(row, "mark")?,
        window: window.map_err(|error| sqlx::Error::Decode(error.into()))?,
        ahead_since: instant("ahead_since")?,
        ahead_at: instant("ahead_at")?,
        look_by: instant("look_by")?,
        expires_at: instant("expires_at")?,
    })
}

/// How a number stands whose record this row tells of.
pub(super) fn read_standing(row: &PgRow, now: i64) -> Result<Standing, sqlx::Error> {
    let (state, reason): (&str, Option<&str>) = (row.try_get("state")?, row.try_get("reason")?);
    let forget_at = row.try_get::<Instant, _>("forget_at")?.0;
    let refused = row.try_get("refused")?;
    Ok(Standing::read((state, reason), refused, forget_at, now))
}

/// A number of a sequence; an error if somebody has written a negative one.
pub(super) fn unsigned(row: &PgRow, column: &str) -> Result<u64, sqlx::Error> {
    let number: i64 = row.try_get(column)?;
    u64::try_from(number).map_err(|error| sqlx::Error::Decode(error.into()))
}

/// As a column holds it. One that is greater than a column can hold is ahead of every sequence, so
/// nothing is ever stored under it.
pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The same for several.
pub(super) fn numbers(list: &[u64]) -> Vec<i64> {
    list.iter().copied().map(number).collect()
}
