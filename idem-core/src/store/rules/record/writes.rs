//! What a write under a lease comes to: extend, complete, release.
//!
//! What must stay true: a write takes effect only while the key is in progress under the write's
//! own token. So a worker that was paused past its lease can still finish if nobody took over, and
//! cannot touch the claim of another if somebody did. None of them looks at expiry.

use std::time::Duration;

use super::{Reason, Record, State, Step, after, micros, stay};
use crate::{
    handler::Outcome,
    store::{Release, Write},
};

/// A write under a lease, for stores that queue it.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
#[derive(Debug)]
pub(crate) enum Change {
    Extend {
        by: Duration,
    },
    Complete {
        outcome: Outcome,
        retention: Duration,
    },
    Release {
        reason: Release,
    },
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl Change {
    pub(crate) fn step(&self, record: Option<&Record>, token: i64, now: i64) -> Step<Write> {
        match self {
            Self::Extend { by } => extend(record, token, *by, now),
            Self::Complete { outcome, retention } => {
                complete(record, token, outcome, *retention, now)
            }
            Self::Release { reason } => release(record, token, reason, now),
        }
    }
}

/// A store's call to extend: the lease lasts this long from now.
pub(crate) fn extend(record: Option<&Record>, token: i64, by: Duration, now: i64) -> Step<Write> {
    match held(record, token) {
        None => stay(Write::Fenced),
        Some(old) => {
            let lease_ends = after(now, by);
            applied(Record {
                // Counted from the lease's end: a purge must not remove the record of a key whose
                // lease is held.
                forget_at: lease_ends.saturating_add(old.retention),
                written_at: now,
                state: State::InProgress { lease_ends },
                ..old.clone()
            })
        }
    }
}

/// A store's call to complete. The retention is the handler's own, counted from now.
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
            written_at: now,
            state: State::Completed {
                outcome: outcome.clone(),
            },
            ..old.clone()
        });
    }
    // The first completion may have been carried out though its answer was lost. To call the second
    // fenced would have finished work run again.
    repeated(record, token, |state| {
        matches!(state, State::Completed { .. })
    })
}

/// A store's call to release: the key is free, for the reason that is given.
pub(crate) fn release(
    record: Option<&Record>,
    token: i64,
    reason: &Release,
    now: i64,
) -> Step<Write> {
    if let Some(old) = held(record, token) {
        return applied(old.clone().released(reason, now));
    }
    // Compared without the error and the delay: a repeated release changes nothing, and the first
    // one stands.
    let reason = Reason::from(reason);
    repeated(
        record,
        token,
        |state| matches!(state, State::Failed { reason: same, .. } if *same == reason),
    )
}

impl Record {
    /// The record after its lease was given back. Token and owner stay, so that a late copy of the
    /// claim or of a write is recognised.
    fn released(mut self, reason: &Release, now: i64) -> Self {
        self.forget_at = now.saturating_add(self.retention);
        self.written_at = now;
        let mut not_before = None;
        let error = match reason {
            Release::Failed { error, retry_after } => {
                // This attempt ended with a word, so nothing about it is in doubt.
                self.in_doubt = false;
                if !retry_after.is_zero() {
                    let due = after(now, *retry_after);
                    // Counted from the time when it can be claimed again. If the record were
                    // forgotten before, its attempts would begin anew each time and never be used
                    // up.
                    self.forget_at = due.saturating_add(self.retention);
                    not_before = Some(due);
                }
                Some(error.clone())
            }
            Release::Abandoned => {
                // The handler was never polled: this was no attempt.
                self.attempts = self.attempts.saturating_sub(1);
                // Nothing of this content ran, so other content may come instead: if this was the
                // first attempt, or if it took the key over from one that may have had other
                // content. Otherwise the content is that of an earlier attempt that failed, and
                // stays.
                if self.attempts == 0 || self.in_doubt {
                    self.fingerprint = None;
                }
                None
            }
            // The message becomes a dead letter. All of this begins anew, so that a replay runs,
            // also if somebody has mended its content.
            Release::GaveUp { error } => {
                self.attempts = 0;
                self.in_doubt = false;
                self.fingerprint = None;
                Some(error.clone())
            }
            // Attempts and doubt stay: they are why it is in quarantine.
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

/// The record, if it is claimed under this token. The one test on which all fencing rests.
fn held(record: Option<&Record>, token: i64) -> Option<&Record> {
    record
        .filter(|record| record.token == token && matches!(record.state, State::InProgress { .. }))
}

/// The answer to a write whose lease has ended: applied if this very write ended it, else fenced.
/// The record stays as it is.
fn repeated(record: Option<&Record>, token: i64, same: impl Fn(&State) -> bool) -> Step<Write> {
    let repeated = record.is_some_and(|record| record.token == token && same(&record.state));
    stay(if repeated {
        Write::Applied
    } else {
        Write::Fenced
    })
}

/// The answer to a write that takes effect, and the record to write.
fn applied(record: Record) -> Step<Write> {
    Step {
        answer: Write::Applied,
        write: Some(record),
    }
}
