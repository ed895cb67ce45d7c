//! What a write under a lease comes to.

use std::time::Duration;

use super::{Reason, Record, State, Step, after, micros, stay};
use crate::{
    handler::Outcome,
    store::{Release, Write},
};

/// A store's call to extend.
pub(crate) fn extend(record: Option<&Record>, token: i64, by: Duration, now: i64) -> Step<Write> {
    match held(record, token) {
        None => stay(Write::Fenced),
        Some(old) => {
            let lease_ends = after(now, by);
            applied(Record {
                forget_at: lease_ends.saturating_add(old.retention),
                state: State::InProgress { lease_ends },
                ..old.clone()
            })
        }
    }
}

/// A store's call to complete.
pub(crate) fn complete(
    record: Option<&Record>,
    token: i64,
    outcome: &Outcome,
    retention: Duration,
    now: i64,
) -> Step<Write> {
    if let Some(old) = held(record, token) {
        return applied(Record {
            retention: micros(retention),
            forget_at: after(now, retention),
            state: State::Completed {
                outcome: outcome.clone(),
            },
            ..old.clone()
        });
    }
    repeated(record, token, |state| {
        matches!(state, State::Completed { .. })
    })
}

/// A store's call to release.
pub(crate) fn release(
    record: Option<&Record>,
    token: i64,
    reason: &Release,
    now: i64,
) -> Step<Write> {
    if let Some(old) = held(record, token) {
        return applied(old.clone().released(reason, now));
    }
    let reason = Reason::from(reason);
    repeated(
        record,
        token,
        |state| matches!(state, State::Failed { reason: same, .. } if *same == reason),
    )
}

impl Record {
    /// The record after its lease was given back.
    fn released(mut self, reason: &Release, now: i64) -> Self {
        self.forget_at = now.saturating_add(self.retention);
        let mut not_before = None;
        let error = match reason {
            Release::Failed { error, retry_after } => {
                self.in_doubt = false;
                if !retry_after.is_zero() {
                    let due = after(now, *retry_after);
                    // Remembered for the whole retention once it can be claimed again, or its
                    // attempts would never be used up.
                    self.forget_at = due.saturating_add(self.retention);
                    not_before = Some(due);
                }
                Some(error.clone())
            }
            Release::Abandoned => {
                self.attempts = self.attempts.saturating_sub(1);
                // Nothing of this content ran, so other content may come instead.
                if self.attempts == 0 || self.in_doubt {
                    self.fingerprint = None;
                }
                None
            }
            Release::GaveUp { error } => {
                self.attempts = 0;
                self.in_doubt = false;
                self.fingerprint = None;
                Some(error.clone())
            }
            Release::Quarantined => None,
        };
        self.state = State::Failed {
            reason: reason.into(),
            error,
            not_before,
        };
        self
    }
}

/// The record, if it is claimed under this token.
fn held(record: Option<&Record>, token: i64) -> Option<&Record> {
    record
        .filter(|record| record.token == token && matches!(record.state, State::InProgress { .. }))
}

/// The answer to a write whose lease has ended: did this very write end it?
fn repeated(record: Option<&Record>, token: i64, same: impl Fn(&State) -> bool) -> Step<Write> {
    let repeated = record.is_some_and(|record| record.token == token && same(&record.state));
    stay(if repeated {
        Write::Applied
    } else {
        Write::Fenced
    })
}

fn applied(record: Record) -> Step<Write> {
    Step {
        answer: Write::Applied,
        write: Some(record),
    }
}
