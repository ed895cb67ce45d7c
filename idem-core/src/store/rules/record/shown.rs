//! A record as an operator is shown it: the stores' operator functions read it through here.
//!
//! Nothing is decided here. Times of the store's clock become durations from now, which mean the
//! same on the operator's machine; one that has passed is zero.

use std::time::{Duration, SystemTime};

use super::{Reason, Record, State};
use crate::{
    handler::FencingToken,
    message::Key,
    store::operator::{Condition, FailedReason, KeyRecord, KeyState},
};

impl KeyRecord {
    /// A record as it is now, in microseconds of the store's clock, which counts from `epoch`, in microseconds since
    /// 1970.
    pub(crate) fn of(key: Key, record: &Record, now: i64, epoch: i64) -> Self {
        let moment = |at: i64| moment(at.saturating_add(epoch));
        let is_completed = matches!(record.state, State::Completed { .. });
        Self {
            attempts: record.attempts,
            in_doubt: record.in_doubt,
            owner: Some(record.owner),
            fingerprint: record.fingerprint,
            created_at: record.created_at.map(moment),
            completed_at: is_completed.then(|| moment(record.written_at)),
            age: between(record.written_at, now),
            remembered_for: between(now, record.forget_at),
            ..Self::new(
                key,
                FencingToken::new(record.token),
                Condition::of(&record.state, now),
            )
        }
    }
}

impl Condition {
    /// The state, with what is left of its times.
    pub(crate) fn of(state: &State, now: i64) -> Self {
        match state {
            State::InProgress { lease_ends } => Self::InProgress {
                lease_remaining: between(now, *lease_ends),
            },
            State::Completed { outcome } => Self::Completed {
                // The length only: an outcome may hold what is nobody's business.
                outcome_bytes: outcome.as_bytes().len() as u64,
            },
            State::Failed {
                reason,
                error,
                not_before,
            } => Self::Failed {
                reason: (*reason).into(),
                error: error.clone(),
                retry_in: not_before.map_or(Duration::ZERO, |due| between(now, due)),
            },
        }
    }
}

impl From<Reason> for FailedReason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Failed => Self::Failed,
            Reason::Abandoned => Self::Abandoned,
            Reason::GaveUp => Self::GaveUp,
            Reason::Quarantined => Self::Quarantined,
        }
    }
}

impl From<&State> for KeyState {
    fn from(state: &State) -> Self {
        match state {
            State::InProgress { .. } => Self::InProgress,
            State::Completed { .. } => Self::Completed,
            State::Failed { .. } => Self::Failed,
        }
    }
}

/// The duration from one time to a later one, both in microseconds; zero if it is not later.
fn between(from: i64, to: i64) -> Duration {
    Duration::from_micros(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}

/// A time in microseconds since 1970.
pub(crate) fn moment(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
