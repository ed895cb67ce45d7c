//! What the store's answer means for a message, and what a failure means for its key: pure functions.
//!
//! Each mode of [`attempt`](super::attempt) asks them, and carries out what they say. Two questions are answered. After
//! a claim: how does a message end that does not run ([`NotRun`])? After a run: what is the key's end ([`KeyEnd`]), and
//! how does its message end? What must stay true:
//!
//! - Nothing here waits, asks a store or tells one.
//! - Only a completion makes a duplicate.
//! - What the store is told of a key and how its message ends are decided together, so that they fit each other.

use std::time::Duration;

mod objection;

pub(crate) use objection::Objection;

use super::{Requester, guarded, remembered, retry_after};
use crate::{
    executor::{Cause, Execution, Lateness},
    handler::{Failure, InDoubt, Outcome, Policy, Refusal, Verdict},
    store::{Begun, Claim, Lease, OutOfPlace, Release, StoreError},
};

/// What came of a claim after which nothing runs.
#[derive(Debug)]
pub(crate) enum NotRun {
    /// The store answered; never [`Claim::Acquired`].
    Answered(Claim),
    /// The store could not answer, or it refused. The claim may have been recorded.
    Unavailable(StoreError),
    /// The message has had this many attempts, which is all that the policy allows. The key was given up.
    Exhausted(u32),
    /// Nothing is known of the key, which may have been forgotten. The key was given up.
    TooOld,
    /// The executor is closed; the key was given back, and this was no attempt.
    Abandoned,
}

impl NotRun {
    /// How the message ended. It depends on the requester whether a remembered rejection is repeated as an answer.
    pub(crate) fn into_execution<T, E>(self, requester: Requester) -> Execution<T, E> {
        match self {
            Self::Answered(Claim::Completed { outcome, remaining }) => {
                duplicate(outcome, remaining, requester)
            }
            // Also a key whose last attempt failed, and whose next one is not due.
            Self::Answered(Claim::Held { remaining }) => Execution::Conflict { remaining },
            Self::Answered(Claim::KeyReused) => Execution::KeyReused,
            Self::Answered(Claim::Quarantined) => Execution::InDoubt {
                error: "an earlier attempt ended without a word: its effects may have happened"
                    .into(),
                attempt: 0,
            },
            Self::Answered(Claim::OutOfPlace(why)) => out_of_place(why),
            Self::Answered(Claim::Acquired(_)) => unreachable!("an acquired claim is a grant"),
            // Apart from an outage, because waiting does not help: a person has to mend or delete the record.
            Self::Unavailable(error @ StoreError::Corrupt { .. }) => {
                Execution::RecordCorrupt { error }
            }
            Self::Unavailable(error) => Execution::StoreUnavailable { error },
            // Nothing ran now: the attempts before were all that there may be, and the last of them said nothing.
            Self::Exhausted(attempts) => Execution::Exhausted {
                cause: Cause::Vanished,
                attempt: attempts,
            },
            Self::TooOld => Execution::Late {
                why: Lateness::BeyondRetention,
            },
            Self::Abandoned => Execution::Abandoned,
        }
    }
}

/// The lease of a claim, or why there is none. Only an acquired claim has something to give back.
pub(super) fn lease_or_not_run(answer: Result<Claim, StoreError>) -> Result<Lease, NotRun> {
    match answer {
        Ok(Claim::Acquired(lease)) => Ok(lease),
        // Held, completed, or not to be run: nothing was claimed, and nothing is to be given back.
        Ok(answer) => Err(NotRun::Answered(answer)),
        // It may have been recorded. The same owner has it back when the message is tried again.
        Err(error) => Err(NotRun::Unavailable(error)),
    }
}

/// The same of a claim that came with a transaction, or with the opening of one.
pub(super) fn begun<T>(answer: Result<Begun<T>, StoreError>) -> Result<(Lease, T), NotRun> {
    match answer {
        Ok(Begun::Acquired(lease, open)) => Ok((lease, open)),
        Ok(Begun::Not(answer)) => Err(NotRun::Answered(answer)),
        Err(error) => Err(NotRun::Unavailable(error)),
    }
}

/// How a copy of a completed message ends. A remembered rejection is repeated to whoever waits for an answer.
/// If nobody does, the copy is rejected like its original: as a duplicate it would be acknowledged as done, and
/// lost.
// docs/decisions/0016
fn duplicate<T, E>(outcome: Outcome, remaining: Duration, requester: Requester) -> Execution<T, E> {
    match outcome.rejection() {
        Some(refusal) if requester == Requester::Nobody => Execution::Rejected {
            cause: Cause::Remembered(refusal.to_string()),
            attempt: 0,
        },
        _ => Execution::Duplicate { outcome, remaining },
    }
}

/// How a message ends at whose place the session or the sequence lets nothing run. Nothing was claimed for it.
fn out_of_place<T, E>(why: OutOfPlace) -> Execution<T, E> {
    match why {
        OutOfPlace::Stale => Execution::Stale,
        OutOfPlace::SessionExpired => Execution::SessionExpired,
        OutOfPlace::BeyondWindow { window } => Execution::BeyondWindow { window },
        OutOfPlace::Late => Execution::Late {
            why: Lateness::InSequence,
        },
        OutOfPlace::Ahead { mark, window } => Execution::Ahead { mark, window },
    }
}

/// What the store is told of a failed attempt, and how its message ended. Both are decided together, so that what is
/// dead-lettered is always given up in the store, and what comes again finds its key free when it is due.
pub(crate) fn judge<T, E: Failure>(
    cause: Cause<E>,
    lease: &Lease,
    policy: &Policy,
) -> (Release, Execution<T, E>) {
    let attempt = lease.attempt;
    let error = cause.to_string();
    let verdict = match &cause {
        Cause::Error(error) => error.verdict(),
        // The handler did not say that it rejects the message.
        Cause::Panicked(_) | Cause::TimedOut(_) | Cause::Refused(_) | Cause::Vanished => {
            Verdict::Retry
        }
        Cause::Remembered(_) | Cause::Withdrawn => Verdict::Reject,
    };
    // For good, or worth another attempt: then perhaps with a delay that the handler asks for.
    let asked = match verdict {
        // What was done before is completed by `unsuccessful`, which asks this about all else.
        Verdict::Reject | Verdict::DoneBefore => {
            return (
                Release::gave_up(error),
                Execution::Rejected { cause, attempt },
            );
        }
        Verdict::RetryAfter(delay) => Some(delay),
        Verdict::Retry => None,
    };
    // After the verdict: what the handler rejects is a rejection also at its last attempt.
    if attempt >= policy.max_attempts() {
        return (
            Release::gave_up(error),
            Execution::Exhausted { cause, attempt },
        );
    }
    // The same delay for both: the key is free when the message comes back.
    let retry_after = retry_after(policy, attempt, asked);
    let failed = Execution::Failed {
        cause,
        attempt,
        retry_after,
    };
    (Release::retry_after(retry_after, error), failed)
}

/// What the store is told of an attempt that has ended. Once decided it does not change: a completion is repeated until
/// the store has answered, and never becomes a release.
#[derive(Debug)]
pub(super) enum KeyEnd {
    /// Copies are answered with this until its retention ends.
    Completed(Outcome),
    /// The key is free, at once or later, or only for a replay.
    Released(Release),
}

/// What the store is told of an attempt that failed of this cause, and how its message ended.
///
/// If a requester waits for an answer, a rejection for good is completed like an output: copies of the request
/// are then answered with the same refusal. Everything else is released, as [`judge`] says.
pub(super) fn unsuccessful<T, E: Failure>(
    cause: Cause<E>,
    lease: &Lease,
    policy: &Policy,
    requester: Requester,
) -> (KeyEnd, Execution<T, E>) {
    // In this order: what the handler found done is a success, whoever waits; then what a requester is to be told as an
    // answer; and then all that is released.
    if cause.is_done_before() {
        return done_before(&cause.to_string(), policy);
    }
    if requester == Requester::Waits && cause.is_for_good() {
        return refused(guarded::refusal(&cause), lease, policy);
    }
    let (release, ended) = judge(cause, lease, policy);
    (KeyEnd::Released(release), ended)
}

/// What the store is told of leased work that was stopped for this cause, and how its message ended.
///
/// The work was dropped in the middle and said nothing of its effect: it is in doubt, as if its process had died there.
/// A handler that is only observed runs again in any case; the store is told of the doubt, so that the next attempt
/// is counted as one that would have been suppressed.
// docs/decisions/0037
pub(super) fn stopped<T, E: Failure>(
    cause: Cause<E>,
    lease: &Lease,
    policy: &Policy,
    requester: Requester,
) -> (KeyEnd, Execution<T, E>) {
    // By default it is a failure like any: it is tried again, and the next attempt may find its effect there.
    if policy.in_doubt() != InDoubt::Quarantine {
        return unsuccessful(cause, lease, policy, requester);
    }
    // The key is quarantined in either case: only a replay runs it, where the policy is enforced.
    let ended = if policy.observes() {
        judge(cause, lease, policy).1
    } else {
        Execution::InDoubt {
            error: format!("{cause}: its effects may have happened"),
            attempt: lease.attempt,
        }
    };
    (KeyEnd::Released(Release::Quarantined), ended)
}

/// What the store is told of an attempt whose output cannot be remembered, and how its message ended.
///
/// For modes that roll the handler's writes back: nothing was done, and no further attempt would change that.
/// Where the effect has happened, the output is forgotten instead ([`Outcome::forgotten`]), and the attempt has
/// succeeded.
pub(super) fn unrememberable<T, E: Failure>(
    refusal: Refusal,
    lease: &Lease,
    policy: &Policy,
    requester: Requester,
) -> (KeyEnd, Execution<T, E>) {
    // It is told why, and so are the copies of its request.
    if requester == Requester::Waits {
        return refused(refusal, lease, policy);
    }
    let cause = Cause::Refused(refusal.to_string());
    let release = Release::gave_up(cause.to_string());
    let attempt = lease.attempt;
    let ended = Execution::Rejected { cause, attempt };
    (KeyEnd::Released(release), ended)
}

/// The handler found its effect there: the key is completed, so that copies need not look for themselves. Of the output
/// nobody knows anything.
fn done_before<T, E>(said: &str, policy: &Policy) -> (KeyEnd, Execution<T, E>) {
    let outcome = Outcome::forgotten(&Refusal::new(Refusal::DONE_BEFORE, said));
    let ended = Execution::Duplicate {
        outcome: outcome.clone(),
        remaining: policy.retention(),
    };
    (KeyEnd::Completed(outcome), ended)
}

/// A refusal that is remembered, and told to the requester. Both get the same one, also if its typed error had to be
/// left out.
fn refused<T, E>(refusal: Refusal, lease: &Lease, policy: &Policy) -> (KeyEnd, Execution<T, E>) {
    let (refusal, outcome) = remembered::rejection(refusal, policy, &lease.key);
    let attempt = lease.attempt;
    let ended = Execution::Refused { refusal, attempt };
    (KeyEnd::Completed(outcome), ended)
}

/// How work ends whose lease was lost. The store is told nothing: the lease is not the current one, and the end is the
/// other worker's to write.
pub(super) fn lease_lost<T, E>(lease: &Lease) -> Execution<T, E> {
    Execution::LeaseLost {
        attempt: lease.attempt,
    }
}
