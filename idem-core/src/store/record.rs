//! The state machine of one record: the call, the record and the time in, the answer and the
//! record to write out.

use std::time::Duration;

use super::{Claim, ClaimRequest, Lease, Outcome, Owner, Release, Write};
use crate::{FencingToken, Fingerprint};

#[cfg(test)]
mod tests;

/// What a store keeps for one key. Times are microseconds of the store's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Of the last claim; it stays when the lease ends, so that the next one is greater.
    pub(crate) token: i64,
    pub(crate) attempts: u32,
    pub(crate) in_doubt: bool,
    /// Of the last claim, so that a repeated claim is recognised.
    pub(crate) owner: Owner,
    pub(crate) fingerprint: Option<Fingerprint>,
    /// How long the record lives after its last write.
    pub(crate) retention: i64,
    /// The last write plus the retention.
    pub(crate) forget_at: i64,
    pub(crate) state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    InProgress {
        lease_ends: i64,
    },
    Completed {
        outcome: Outcome,
    },
    Failed {
        reason: Reason,
        error: Option<String>,
    },
}

/// Why a key is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Failed,
    Abandoned,
    GaveUp,
    Quarantined,
}

/// What a call comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step<A> {
    pub(crate) answer: A,
    /// `None` leaves the record as it is.
    pub(crate) write: Option<Record>,
}

/// A store's call to claim. `floor` is the highest token that the store has ever purged.
pub(crate) fn claim(
    record: Option<&Record>,
    request: &ClaimRequest,
    now: i64,
    floor: i64,
) -> Step<Claim> {
    let token = next_token(record, now, floor);
    let Some(old) = record.filter(|record| !record.is_forgotten(now)) else {
        return acquire(request, token, 1, false, request.fingerprint, now);
    };
    let attempt = if request.replay {
        1
    } else {
        old.attempts.saturating_add(1)
    };
    let fingerprint = request.fingerprint.or(old.fingerprint);
    match &old.state {
        State::Completed { .. } if old.is_other_content(request) => stay(Claim::KeyReused),
        State::Completed { outcome } => stay(Claim::Completed {
            outcome: outcome.clone(),
            remaining: until(old.forget_at, now),
        }),
        State::InProgress { lease_ends } if old.owner == request.owner => {
            acquire_again(old, *lease_ends, request, now)
        }
        State::InProgress { lease_ends } if *lease_ends > now => stay(Claim::Held {
            remaining: until(*lease_ends, now),
        }),
        State::InProgress { .. } => {
            acquire(request, token, attempt, !request.replay, fingerprint, now)
        }
        // An owner whose lease was ended never acquires again: its claim may be a late copy.
        State::Failed { .. } if old.owner == request.owner => stay(Claim::Held {
            remaining: Duration::ZERO,
        }),
        State::Failed { reason, .. } if *reason == Reason::Quarantined => {
            if request.replay {
                acquire(request, token, 1, false, request.fingerprint, now)
            } else {
                stay(Claim::Quarantined)
            }
        }
        State::Failed { .. } if old.is_other_content(request) => stay(Claim::KeyReused),
        State::Failed { .. } => {
            let in_doubt = old.in_doubt && !request.replay;
            acquire(request, token, attempt, in_doubt, fingerprint, now)
        }
    }
}

/// A store's call to extend.
pub(crate) fn extend(record: Option<&Record>, token: i64, by: Duration, now: i64) -> Step<Write> {
    match held(record, token) {
        None => stay(Write::Fenced),
        Some(old) => applied(Record {
            forget_at: now.saturating_add(old.retention),
            state: State::InProgress {
                lease_ends: after(now, by),
            },
            ..old.clone()
        }),
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
        return applied(Record {
            forget_at: now.saturating_add(old.retention),
            ..old.clone().released(reason)
        });
    }
    let reason = Reason::from(reason);
    repeated(
        record,
        token,
        |state| matches!(state, State::Failed { reason: same, .. } if *same == reason),
    )
}

impl Record {
    /// Whether its retention has ended and nobody works under it.
    pub(crate) fn is_forgotten(&self, now: i64) -> bool {
        let working = matches!(self.state, State::InProgress { lease_ends } if lease_ends > now);
        self.forget_at <= now && !working
    }

    fn is_other_content(&self, request: &ClaimRequest) -> bool {
        matches!(
            (self.fingerprint, request.fingerprint),
            (Some(kept), Some(asked)) if kept != asked
        )
    }

    /// The record after its lease was given back.
    fn released(mut self, reason: &Release) -> Self {
        let error = match reason {
            Release::Failed { error } => {
                self.in_doubt = false;
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
        };
        self
    }
}

impl From<&Release> for Reason {
    fn from(release: &Release) -> Self {
        match release {
            Release::Failed { .. } => Self::Failed,
            Release::Abandoned => Self::Abandoned,
            Release::GaveUp { .. } => Self::GaveUp,
            Release::Quarantined => Self::Quarantined,
        }
    }
}

/// A duration in microseconds, as long as can be for one that is longer.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn acquire(
    request: &ClaimRequest,
    token: i64,
    attempts: u32,
    in_doubt: bool,
    fingerprint: Option<Fingerprint>,
    now: i64,
) -> Step<Claim> {
    acquired(
        request,
        Record {
            token,
            attempts,
            in_doubt,
            owner: request.owner,
            fingerprint,
            retention: micros(request.retention),
            forget_at: after(now, request.retention),
            state: State::InProgress {
                lease_ends: after(now, request.lease),
            },
        },
    )
}

/// The same owner has asked before and did not hear the answer.
fn acquire_again(old: &Record, lease_ends: i64, request: &ClaimRequest, now: i64) -> Step<Claim> {
    acquired(
        request,
        Record {
            retention: micros(request.retention),
            forget_at: after(now, request.retention),
            state: State::InProgress {
                lease_ends: lease_ends.max(after(now, request.lease)),
            },
            ..old.clone()
        },
    )
}

fn acquired(request: &ClaimRequest, record: Record) -> Step<Claim> {
    let lease = Lease::new(
        request.key.clone(),
        FencingToken::new(record.token),
        record.attempts,
        record.in_doubt,
    );
    Step {
        answer: Claim::Acquired(lease),
        write: Some(record),
    }
}

/// Greater than the key's last token, than every purged one, and than the time, which is all
/// that is left of a record that was lost.
fn next_token(record: Option<&Record>, now: i64, floor: i64) -> i64 {
    let last = record.map_or(floor, |record| record.token.max(floor));
    last.saturating_add(1).max(now)
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

fn stay<A>(answer: A) -> Step<A> {
    Step {
        answer,
        write: None,
    }
}

fn after(now: i64, duration: Duration) -> i64 {
    now.saturating_add(micros(duration))
}

fn until(then: i64, now: i64) -> Duration {
    Duration::from_micros(u64::try_from(then.saturating_sub(now)).unwrap_or(0))
}
