//! What a claim comes to: acquired, or why not.
//!
//! What must stay true:
//!
//! - At most one owner acquires at a time.
//! - Nothing that is completed is acquired before its retention ends.
//! - An owner that repeats its claim gets the same token, and never acquires again once it has given its lease back.

use std::time::Duration;

use super::{Reason, Record, State, Step, after, micros, stay};
use crate::{
    handler::FencingToken,
    message::Fingerprint,
    store::{Claim, ClaimRequest, Lease},
};

/// A store's call to claim. `floor` is the highest token that the store has ever purged.
///
/// The order of the match matters: what ends the need to run comes before what frees the key, and
/// the same owner comes before everybody else.
pub(crate) fn claim(
    record: Option<&Record>,
    request: &ClaimRequest,
    now: i64,
    floor: i64,
) -> Step<Claim> {
    let token = next_token(record, now, floor);
    // A forgotten record counts as absent, but for its token: an owner from before may still write
    // under the old one.
    let Some(old) = record.filter(|record| !record.is_forgotten(now)) else {
        return acquire(
            request,
            token,
            1,
            false,
            request.fingerprint,
            Some(now),
            now,
        );
    };
    // A person has sent the message again, so its attempts begin anew. Otherwise they survive
    // release and takeover, or a message that kills every worker would never be given up.
    let attempt = if request.replay {
        1
    } else {
        old.attempts.saturating_add(1)
    };
    // A request without a fingerprint must not erase the one that later copies are compared with.
    let fingerprint = request.fingerprint.or(old.fingerprint);
    match &old.state {
        // Before the ordinary duplicate: to acknowledge other content as a duplicate would lose a
        // message.
        State::Completed { .. } if old.is_other_content(request) => stay(Claim::KeyReused),
        State::Completed { outcome } => stay(Claim::Completed {
            outcome: outcome.clone(),
            remaining: until(old.forget_at, now),
        }),
        // Before the test of the lease: the owner repeats its claim because the first answer was
        // lost.
        State::InProgress { lease_ends } if old.owner == request.owner => {
            acquire_again(old, *lease_ends, request, now)
        }
        // Also if the content differs. Whether it does is decided when the attempt has ended: the
        // attempt may be taken over, or give its content up.
        State::InProgress { lease_ends } if *lease_ends > now => stay(Claim::Held {
            remaining: until(*lease_ends, now),
        }),
        // It may still be completed.
        State::InProgress { .. } if !request.takes_over => stay(Claim::Held {
            remaining: Duration::ZERO,
        }),
        // docs/decisions/0005
        // The lease ran out without a word, so the new attempt is in doubt. For a replay, too: the
        // person who sent it has not seen what this attempt left behind.
        State::InProgress { .. } => acquire(
            request,
            token,
            attempt,
            true,
            fingerprint,
            old.created_at,
            now,
        ),
        // An owner whose lease was ended never acquires again. Its claim may be a late copy, and
        // nobody would work under the lease.
        State::Failed { .. } if old.owner == request.owner => stay(Claim::Held {
            remaining: Duration::ZERO,
        }),
        // Before the test of the content: in quarantine nothing but a replay runs, whatever it
        // holds. The replay is a person's decision, so doubt and fingerprint begin anew with it.
        State::Failed { reason, .. } if *reason == Reason::Quarantined => {
            if request.replay {
                acquire(
                    request,
                    token,
                    1,
                    false,
                    request.fingerprint,
                    old.created_at,
                    now,
                )
            } else {
                stay(Claim::Quarantined)
            }
        }
        State::Failed { .. } if old.is_other_content(request) => stay(Claim::KeyReused),
        // docs/decisions/0008
        // The delay that the failure asked for. Not for a replay: a person wants it to run now.
        State::Failed {
            not_before: Some(due),
            ..
        } if *due > now && !request.replay => stay(Claim::Held {
            remaining: until(*due, now),
        }),
        // The doubt stays: it was an earlier attempt that ended without a word, and an abandoned
        // one says nothing of that.
        State::Failed { .. } => acquire(
            request,
            token,
            attempt,
            old.in_doubt,
            fingerprint,
            old.created_at,
            now,
        ),
    }
}

impl Record {
    /// Whether the content is known to differ: both have a fingerprint, and not the same one.
    fn is_other_content(&self, request: &ClaimRequest) -> bool {
        matches!(
            (self.fingerprint, request.fingerprint),
            (Some(kept), Some(asked)) if kept != asked
        )
    }
}

/// Gives the key to this request, under a new token.
fn acquire(
    request: &ClaimRequest,
    token: i64,
    attempts: u32,
    in_doubt: bool,
    fingerprint: Option<Fingerprint>,
    created_at: Option<i64>,
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
            created_at,
            written_at: now,
            state: State::InProgress { lease_ends },
        },
    )
}

/// The same owner has asked before and did not hear the answer. It gets the same token and the same
/// attempt.
fn acquire_again(old: &Record, lease_ends: i64, request: &ClaimRequest, now: i64) -> Step<Claim> {
    // Never earlier: a late copy of the first claim must not shorten a lease that was extended
    // since.
    let lease_ends = lease_ends.max(after(now, request.lease));
    acquired(
        request,
        Record {
            retention: micros(request.retention),
            forget_at: after(lease_ends, request.retention),
            written_at: now,
            state: State::InProgress { lease_ends },
            ..old.clone()
        },
    )
}

/// The record to write, and the lease that tells of it.
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

/// A token greater than the key's last one and than every purged one; and at least the time, which
/// is all that is left of a record that was lost. If a token were given out twice, an earlier owner
/// could write under the new lease.
pub(super) fn next_token(record: Option<&Record>, now: i64, floor: i64) -> i64 {
    let last = record.map_or(floor, |record| record.token.max(floor));
    last.saturating_add(1).max(now)
}

/// How long it is until `then`; zero if it has passed.
fn until(then: i64, now: i64) -> Duration {
    Duration::from_micros(u64::try_from(then.saturating_sub(now)).unwrap_or(0))
}
