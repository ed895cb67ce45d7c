//! Rows as what an operator is shown.
//!
//! The stores' `operator` modules call it with rows of `list.sql`, `show.sql`, `audit.sql` and `counts.sql`. What must
//! stay true: one record that cannot be read hides no other.

use super::{ReadRow, Unreadable, record_in_full, there, time};
use crate::{
    handler::FencingToken,
    message::Key,
    store::{
        Looked, StoreError,
        operator::{AuditEntry, Condition, Cursor, KeyRecord, Page, ScopeCounts, Seen},
        rules::record::State,
    },
};

/// `now` is what the store's clock says of a row.
pub(in crate::stores) fn page<R: ReadRow>(
    rows: &[R],
    is_last: bool,
    now: impl Fn(&R) -> Result<i64, sqlx::Error>,
) -> Result<Page, sqlx::Error> {
    let (mut records, mut unreadable) = (Vec::new(), Vec::new());
    let mut next = None;
    for row in rows {
        let name = there(row.text("key")?)?;
        let key = name.parse::<Key>().map_err(Unreadable::from);
        match key.and_then(|key| key_record(key, row, now(row)?)) {
            Ok((record, _)) => records.push(record),
            Err(_) => unreadable.push(name.to_owned()),
        }
        next = Some(Cursor::new(name));
    }
    Ok(Page::new(records, unreadable, next.filter(|_| !is_last)))
}

pub(in crate::stores) fn looked(
    key: &Key,
    row: &impl ReadRow,
    now: i64,
) -> Result<Looked, StoreError> {
    let known = key_record(key.clone(), row, now);
    let (record, state) = known.map_err(|source| corrupt(key, source))?;
    let outcome = match state {
        State::Completed { outcome } => Some(outcome),
        _ => None,
    };
    Ok(Looked::new(record, outcome))
}

pub(in crate::stores) fn audit<R: ReadRow>(
    key: &Key,
    rows: &[R],
) -> Result<Vec<AuditEntry>, StoreError> {
    let entries = rows.iter().map(entry).collect::<Result<_, _>>();
    entries.map_err(|source| corrupt(key, source))
}

fn corrupt(key: &Key, source: Unreadable) -> StoreError {
    StoreError::Corrupt {
        key: key.to_string(),
        source,
    }
}

pub(in crate::stores) fn counts(row: &impl ReadRow) -> Result<ScopeCounts, sqlx::Error> {
    let number = |column| row.number(column).map(i64::unsigned_abs);
    Ok(ScopeCounts {
        in_progress: number("in_progress")?,
        overdue: number("overdue")?,
        completed: number("completed")?,
        failed: number("failed")?,
        quarantined: number("quarantined")?,
        forgotten: number("forgotten")?,
        ..ScopeCounts::new(there(row.text("scope")?)?)
    })
}

fn key_record<R: ReadRow>(key: Key, row: &R, now: i64) -> Result<(KeyRecord, State), Unreadable> {
    let known = record_in_full(row)?;
    let mut record = KeyRecord::of(key, &known, now, R::EPOCH);
    // A list has no outcomes, only how long they are.
    if let Condition::Completed { outcome_bytes } = &mut record.condition {
        *outcome_bytes = row.number("outcome_bytes")?.unsigned_abs();
    }
    Ok((record, known.state))
}

fn entry<R: ReadRow>(row: &R) -> Result<AuditEntry, Unreadable> {
    let since_1970 = time(row, "at")?.saturating_add(R::EPOCH).unsigned_abs();
    let action = there(row.text("action")?)?.parse()?;
    let before = match row.text("state_before")? {
        None => None,
        Some(state) => Some(Seen {
            state: state.parse()?,
            token: FencingToken::new(row.number("token_before")?),
        }),
    };
    let by = there(row.text("by_whom")?)?.to_owned();
    Ok(AuditEntry::new(since_1970, action, by, before))
}
