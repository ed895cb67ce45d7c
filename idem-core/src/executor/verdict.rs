//! What the store's answer means for a message, and what a failure means for its key: pure functions.
//!
//! Each mode of [`attempt`](super::attempt) asks them, and carries out what they say.

use std::time::Duration;

use super::{Requester, guarded, remembered, retry_after};
use crate::{
    executor::{Cause, Execution},
    handler::{Failure, InDoubt, Outcome, Policy, Refusal, Verdict},
    store::{Claim, Lease, OutOfPlace, Release, StoreError},
};

/// An answer to a claim after which nothing runs.
#[derive(Debug)]
pub(crate) enum Ended {
    Answered(Claim),
    Unavailable(StoreError),
    Exhausted(u32),
    Abandoned,
}

impl Ended {
    pub(crate) fn into_execution<T, E>(self, requester: Requester) -> Execution<T, E> {
        match self {
            Self::Answered(Claim::Completed { outcome, remaining }) => {
                duplicate(outcome, remaining, requester)
            }
            Self::Answered(Claim::Held { remaining }) => Execution::Conflict { remaining },
            Self::Answered(Claim::KeyReused) => Execution::KeyReused,
            Self::Answered(Claim::Quarantined) => Execution::InDoubt,
            Self::Answered(Claim::OutOfPlace(why)) => out_of_place(why),
            Self::Answered(Claim::Acquired(_)) => unreachable!("an acquired claim is a grant"),
            Self::Unavailable(error @ StoreError::Corrupt { .. }) => {
                Execution::RecordCorrupt { error }
            }
            Self::Unavailable(error) => Execution::StoreUnavailable { error },
            Self::Exhausted(attempts) => Execution::Exhausted {
                cause: Cause::Vanished,
                attempt: attempts,
            },
            Self::Abandoned => Execution::Abandoned,
        }
    }
}

/// A copy of what is done. A rejection is repeated to whoever waits for an answer; otherwise it must
/// not be taken for something that was done.
fn duplicate<T, E>(outcome: Outcome, remaining: Duration, requester: Requester) -> Execution<T, E> {
    match outcome.rejection() {
        Some(refusal) if requester == Requester::Nobody => Execution::Rejected {
            cause: Cause::Remembered(refusal.to_string()),
            attempt: 0,
        },
        _ => Execution::Duplicate { outcome, remaining },
    }
}

/// A place at which the session or the sequence lets nothing run.
fn out_of_place<T, E>(why: OutOfPlace) -> Execution<T, E> {
    match why {
        OutOfPlace::Stale => Execution::Stale,
        OutOfPlace::SessionExpired => Execution::SessionExpired,
        OutOfPlace::BeyondWindow { window } => Execution::BeyondWindow { window },
        OutOfPlace::Late => Execution::Late,
        OutOfPlace::Ahead { mark, window } => Execution::Ahead { mark, window },
    }
}

/// Why a key just acquired is given back unrun.
pub(crate) fn objection(
    lease: &Lease,
    policy: &Policy,
    closed: bool,
    doubt: bool,
) -> Option<Release> {
    if closed {
        return Some(Release::Abandoned);
    }
    if doubt && lease.in_doubt && policy.in_doubt() == InDoubt::Quarantine {
        return Some(Release::Quarantined);
    }
    (lease.attempt > policy.max_attempts())
        .then(|| Release::gave_up(Cause::<crate::handler::Failed>::Vanished.to_string()))
}

/// What is reported after an objection.
pub(crate) fn ended_by(objection: &Release, lease: &Lease) -> Ended {
    match objection {
        Release::Abandoned => Ended::Abandoned,
        Release::Quarantined => Ended::Answered(Claim::Quarantined),
        Release::Failed { .. } | Release::GaveUp { .. } => Ended::Exhausted(lease.attempt - 1),
    }
}

/// How a failed attempt ends, and what the store is told.
pub(crate) fn judge<T, E: Failure>(
    cause: Cause<E>,
    lease: &Lease,
    policy: &Policy,
) -> (Release, Execution<T, E>) {
    let attempt = lease.attempt;
    let error = cause.to_string();
    let verdict = match &cause {
        Cause::Error(error) => error.verdict(),
        Cause::Panicked(_) | Cause::Refused(_) | Cause::Vanished => Verdict::Retry,
        Cause::Remembered(_) | Cause::Withdrawn => Verdict::Reject,
    };
    let asked = match verdict {
        Verdict::Reject => {
            return (
                Release::gave_up(error),
                Execution::Rejected { cause, attempt },
            );
        }
        Verdict::RetryAfter(delay) => Some(delay),
        Verdict::Retry => None,
    };
    if attempt >= policy.max_attempts() {
        return (
            Release::gave_up(error),
            Execution::Exhausted { cause, attempt },
        );
    }
    let retry_after = retry_after(policy, attempt, asked);
    let failed = Execution::Failed {
        cause,
        attempt,
        retry_after,
    };
    (Release::retry_after(retry_after, error), failed)
}

/// What the store is told of an attempt that has ended.
#[derive(Debug)]
pub(super) enum End {
    Completed(Outcome),
    Released(Release),
}

/// How an attempt ends that has failed of this, where a requester may wait for an answer: what is for good is
/// remembered then, like an output.
pub(super) fn unsuccessful<T, E: Failure>(
    cause: Cause<E>,
    lease: &Lease,
    policy: &Policy,
    requester: Requester,
) -> (End, Execution<T, E>) {
    if requester == Requester::Waits && cause.is_for_good() {
        return refused(guarded::refusal(&cause), lease, policy);
    }
    let (release, ended) = judge(cause, lease, policy);
    (End::Released(release), ended)
}

/// How an attempt ends whose output cannot be remembered, and whose writes are rolled back: no further attempt would
/// change that.
pub(super) fn unrememberable<T, E: Failure>(
    refusal: Refusal,
    lease: &Lease,
    policy: &Policy,
    requester: Requester,
) -> (End, Execution<T, E>) {
    if requester == Requester::Waits {
        return refused(refusal, lease, policy);
    }
    let cause = Cause::Refused(refusal.to_string());
    let release = Release::gave_up(cause.to_string());
    let attempt = lease.attempt;
    let ended = Execution::Rejected { cause, attempt };
    (End::Released(release), ended)
}

fn refused<T, E>(refusal: Refusal, lease: &Lease, policy: &Policy) -> (End, Execution<T, E>) {
    let (refusal, outcome) = remembered::rejection(refusal, policy, &lease.key);
    let attempt = lease.attempt;
    let ended = Execution::Refused { refusal, attempt };
    (End::Completed(outcome), ended)
}

pub(super) fn lease_lost<T, E>(lease: &Lease) -> Execution<T, E> {
    Execution::LeaseLost {
        attempt: lease.attempt,
    }
}
