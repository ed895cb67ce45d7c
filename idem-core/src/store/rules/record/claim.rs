//! What a claim comes to.

use std::time::Duration;

use super::{Reason, Record, State, Step, after, micros, stay};
use crate::{
    handler::FencingToken,
    message::Fingerprint,
    store::{Claim, ClaimRequest, Lease},
};

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
        // Also for a replay: the person who sent it has not seen what this attempt left behind.
        State::InProgress { .. } => acquire(request, token, attempt, true, fingerprint, now),
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
        State::Failed {
            not_before: Some(due),
            ..
        } if *due > now && !request.replay => stay(Claim::Held {
            remaining: until(*due, now),
        }),
        State::Failed { .. } => acquire(request, token, attempt, old.in_doubt, fingerprint, now),
    }
}

impl Record {
    fn is_other_content(&self, request: &ClaimRequest) -> bool {
        matches!(
            (self.fingerprint, request.fingerprint),
            (Some(kept), Some(asked)) if kept != asked
        )
    }
}

fn acquire(
    request: &ClaimRequest,
    token: i64,
    attempts: u32,
    in_doubt: bool,
    fingerprint: Option<Fingerprint>,
    now: i64,
) -> Step<Claim> {
    let lease_ends = after(now, request.lease);
    acquired(
        request,
        Record {
            token,
            attempts,
            in_doubt,
            owner: request.owner,
            fingerprint,
            retention: micros(request.retention),
            forget_at: after(lease_ends, request.retention),
            state: State::InProgress { lease_ends },
        },
    )
}

/// The same owner has asked before and did not hear the answer.
fn acquire_again(old: &Record, lease_ends: i64, request: &ClaimRequest, now: i64) -> Step<Claim> {
    let lease_ends = lease_ends.max(after(now, request.lease));
    acquired(
        request,
        Record {
            retention: micros(request.retention),
            forget_at: after(lease_ends, request.retention),
            state: State::InProgress { lease_ends },
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
pub(super) fn next_token(record: Option<&Record>, now: i64, floor: i64) -> i64 {
    let last = record.map_or(floor, |record| record.token.max(floor));
    last.saturating_add(1).max(now)
}

fn until(then: i64, now: i64) -> Duration {
    Duration::from_micros(u64::try_from(then.saturating_sub(now)).unwrap_or(0))
}
