//! Rows as what an operator is shown.

use sqlx::{Row as _, postgres::PgRow};

use crate::{
    handler::FencingToken,
    message::Key,
    store::{
        StoreError,
        operator::{AuditEntry, Condition, Cursor, KeyRecord, Page, ScopeCounts, Seen, Shown},
        rules::record::State,
    },
    stores::postgres::{instant::Instant, row},
};

type Unreadable = Box<dyn std::error::Error + Send + Sync>;

/// Microseconds from 1970 to 2000, from which the server counts.
const MILLENNIUM: i64 = 946_684_800_000_000;

pub(super) fn page(rows: &[PgRow], is_last: bool) -> Result<Page, sqlx::Error> {
    let (mut records, mut unreadable) = (Vec::new(), Vec::new());
    let mut next = None;
    for row in rows {
        let name: String = row.try_get("key")?;
        let key = name.parse::<Key>().map_err(Unreadable::from);
        match key.and_then(|key| record(key, row)) {
            Ok(record) => records.push(record),
            Err(_) => unreadable.push(name.clone()),
        }
        next = Some(Cursor::new(name));
    }
    Ok(Page::new(records, unreadable, next.filter(|_| !is_last)))
}

pub(super) fn shown(
    key: &Key,
    row: Option<&PgRow>,
    entries: &[PgRow],
) -> Result<Shown, StoreError> {
    let corrupt = |source| StoreError::Corrupt {
        key: key.to_string(),
        source,
    };
    let mut shown = Shown::default();
    if let Some(row) = row {
        shown.record = Some(record(key.clone(), row).map_err(corrupt)?);
        if let State::Completed { outcome } = row::read(row).map_err(corrupt)?.state {
            shown.outcome = Some(outcome);
        }
    }
    let entries = entries.iter().map(entry).collect::<Result<_, _>>();
    shown.audit = entries.map_err(corrupt)?;
    Ok(shown)
}

pub(super) fn counts(row: &PgRow) -> Result<ScopeCounts, sqlx::Error> {
    let number = |column| row.try_get::<i64, _>(column).map(i64::unsigned_abs);
    Ok(ScopeCounts {
        in_progress: number("in_progress")?,
        overdue: number("overdue")?,
        completed: number("completed")?,
        failed: number("failed")?,
        quarantined: number("quarantined")?,
        forgotten: number("forgotten")?,
        ..ScopeCounts::new(row.try_get::<String, _>("scope")?)
    })
}

fn record(key: Key, row: &PgRow) -> Result<KeyRecord, Unreadable> {
    let Instant(written_at) = row.try_get("updated_at")?;
    let Instant(now) = row.try_get("now")?;
    let mut record = KeyRecord::of(key, &row::read_in_full(row)?, written_at, now);
    if let Condition::Completed { outcome_bytes } = &mut record.condition {
        *outcome_bytes = row.try_get::<i64, _>("outcome_bytes")?.unsigned_abs();
    }
    Ok(record)
}

fn entry(row: &PgRow) -> Result<AuditEntry, Unreadable> {
    let Instant(at) = row.try_get("at")?;
    let action = row.try_get::<&str, _>("action")?.parse()?;
    let before = match row.try_get::<Option<&str>, _>("state_before")? {
        None => None,
        Some(state) => Some(Seen {
            state: state.parse()?,
            token: FencingToken::new(row.try_get("token_before")?),
        }),
    };
    let since_1970 = at.saturating_add(MILLENNIUM).unsigned_abs();
    let by = row.try_get("by_whom")?;
    Ok(AuditEntry::new(since_1970, action, by, before))
}
