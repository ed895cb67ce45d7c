//! Records as `script/record.lua` packs them, and interventions as `script/operator.lua` does.

use redis::{RedisResult, Value, from_redis_value};

use crate::{
    handler::{FencingToken, Outcome},
    message::{Fingerprint, Key},
    store::{
        Looked, Owner,
        operator::{Action, AuditEntry, Condition, FailedReason, KeyRecord, KeyState, Seen},
        rules::record::moment,
    },
    stores::redis::fault::not_understood,
};

/// The first layout: its records do not say when they were made and written.
const FIRST_LAYOUT: u8 = 1;
const LAYOUT: u8 = 2;

/// The answer of `look`.
pub(super) fn looked(key: &Key, answer: Value) -> RedisResult<Option<Looked>> {
    let Value::Array(fields) = answer else {
        return Err(not_understood());
    };
    let [now, stored] = <[Value; 2]>::try_from(fields).map_err(|_| not_understood())?;
    let now: i64 = from_redis_value(now)?;
    let Value::BulkString(stored) = stored else {
        return Ok(None);
    };
    let (record, text) = read(key.clone(), &stored, now).ok_or_else(not_understood)?;
    let completed = matches!(record.condition, Condition::Completed { .. });
    let outcome = completed.then(|| Outcome::new(text.to_vec()));
    Ok(Some(Looked::new(record, outcome)))
}

/// The answer of `audit`.
pub(super) fn audit(answer: Value) -> RedisResult<Vec<AuditEntry>> {
    let entries: Vec<Vec<u8>> = from_redis_value(answer)?;
    let entries: Option<_> = entries.iter().map(|entry| read_entry(entry)).collect();
    entries.ok_or_else(not_understood)
}

/// A record, and the text at its end: the outcome or the error. Nothing if it is of another layout.
pub(super) fn read(key: Key, stored: &[u8], now: i64) -> Option<(KeyRecord, &[u8])> {
    let mut rest = Rest(stored);
    let layout = rest.byte()?;
    if ![FIRST_LAYOUT, LAYOUT].contains(&layout) {
        return None;
    }
    let (state, in_doubt) = (rest.byte()?, rest.byte()? == 1);
    let attempts = u32::from_be_bytes(rest.take()?);
    let (token, forget_at) = (rest.number()?, rest.number()?);
    let (created_at, written_at) = match layout {
        FIRST_LAYOUT => (0, 0),
        _ => (rest.number()?, rest.number()?),
    };
    let told = |at| (at > 0).then(|| moment(at));
    let fingerprint = match rest.byte()? {
        0 => None,
        _ => Some(Fingerprint::from_bytes(rest.take()?)),
    };
    let mut owner = None;
    let mut due = 0;
    if state != b'c' {
        due = rest.number()?;
        let _retention = rest.number()?;
        owner = Some(Owner::from_bytes(rest.take()?));
    }
    let Rest(text) = rest;
    let error = || (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned());
    let failed = |reason| Condition::Failed {
        reason,
        error: error(),
        retry_in: micros(due.saturating_sub(now)),
    };
    let condition = match state {
        b'p' => Condition::InProgress {
            lease_remaining: micros(due.saturating_sub(now)),
        },
        b'c' => Condition::Completed {
            outcome_bytes: text.len() as u64,
        },
        b'f' => failed(FailedReason::Failed),
        b'a' => failed(FailedReason::Abandoned),
        b'g' => failed(FailedReason::GaveUp),
        b'q' => failed(FailedReason::Quarantined),
        _ => return None,
    };
    let is_completed = matches!(condition, Condition::Completed { .. });
    // In the first layout nothing is nearer to it: tokens are the time of the claim, unless two came at once.
    let written = if written_at > 0 { written_at } else { token };
    let record = KeyRecord {
        attempts,
        in_doubt,
        owner,
        fingerprint,
        created_at: told(created_at),
        completed_at: told(written_at).filter(|_| is_completed),
        age: micros(now.saturating_sub(written)),
        remembered_for: micros(forget_at.saturating_sub(now)),
        ..KeyRecord::new(key, FencingToken::new(token), condition)
    };
    Some((record, text))
}

fn read_entry(entry: &[u8]) -> Option<AuditEntry> {
    let mut rest = Rest(entry);
    let _owner: [u8; 16] = rest.take()?;
    let at = rest.number()?.unsigned_abs();
    let action = match rest.byte()? {
        b'R' => Action::Release,
        b'F' => Action::Forget,
        b'C' => Action::Complete,
        _ => return None,
    };
    let state = match rest.byte()? {
        b'n' => None,
        b'p' => Some(KeyState::InProgress),
        b'c' => Some(KeyState::Completed),
        b'f' => Some(KeyState::Failed),
        _ => return None,
    };
    let token = FencingToken::new(rest.number()?);
    let before = state.map(|state| Seen { state, token });
    let by = String::from_utf8_lossy(rest.0).into_owned();
    Some(AuditEntry::new(at, action, by, before))
}

/// What is not read yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    /// A whole number, kept as a double.
    #[expect(clippy::cast_possible_truncation, reason = "a double holds it exactly")]
    fn number(&mut self) -> Option<i64> {
        self.take().map(|bytes| f64::from_be_bytes(bytes) as i64)
    }
}

fn micros(micros: i64) -> std::time::Duration {
    std::time::Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
