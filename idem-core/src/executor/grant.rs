//! From the store's answer to leave to run, and from a failure back to the store.

use std::time::Duration;

use super::{
    Executor, Requester,
    fail_open::Watch,
    heartbeat::{HeartbeatScheduler, Moment},
    in_flight::Working,
    retry_after,
};
use crate::{
    executor::{Cause, Execution},
    handler::{Attempt, Failure, InDoubt, Outcome, Policy, StoreOutage, Verdict},
    store::{Claim, ClaimRequest, Lease, Release, Store, StoreError},
};

/// Leave to run: a claim that was acquired and that nothing speaks against.
#[derive(Debug)]
pub(super) struct Grant<'a> {
    pub(super) lease: Lease,
    pub(super) request: &'a ClaimRequest,
    pub(super) policy: &'a Policy,
    pub(super) claimed: Moment,
    pub(super) working: Working,
    /// Where its lease is kept.
    pub(super) heartbeats: &'a HeartbeatScheduler,
    /// If it was given without the store.
    pub(super) unprotected: Option<Watch>,
}

impl Grant<'_> {
    pub(super) fn attempt(&self) -> Attempt {
        let attempt = self.lease.to_attempt(self.policy.max_attempts());
        match self.unprotected {
            None => attempt,
            Some(_) => attempt.unprotected(),
        }
    }
}

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
            Self::Answered(Claim::Stale) => Execution::Stale,
            Self::Answered(Claim::SessionExpired) => Execution::SessionExpired,
            Self::Answered(Claim::BeyondWindow { window }) => Execution::BeyondWindow { window },
            Self::Answered(Claim::Late) => Execution::Late,
            Self::Answered(Claim::Ahead { mark, window }) => Execution::Ahead { mark, window },
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

impl<S: Store> Executor<S> {
    /// Claims for a leased handler.
    pub(super) async fn claim<'a>(
        &'a self,
        request: &'a ClaimRequest,
        policy: &'a Policy,
    ) -> Result<Grant<'a>, Ended> {
        if let Some(answer) = self.local.look(request) {
            return self.claim_remembered(request, policy, answer);
        }
        let claimed = Moment::now();
        match self.ask(request, policy).await {
            Ok(Claim::Acquired(lease)) => self.grant(request, policy, lease, claimed).await,
            Ok(answer) => Err(Ended::Answered(answer)),
            Err(error @ StoreError::Unavailable(_))
                if policy.store_outage() == StoreOutage::FailOpen =>
            {
                self.claim_locally(request, policy, error)
            }
            Err(error) => Err(Ended::Unavailable(error)),
        }
    }

    /// Looks at a lease that the store has given, and gives it back if something speaks against
    /// running.
    async fn grant<'a>(
        &'a self,
        request: &'a ClaimRequest,
        policy: &'a Policy,
        lease: Lease,
        claimed: Moment,
    ) -> Result<Grant<'a>, Ended> {
        let working = self.working(request);
        let (objection, ended) = if self.local.remembers(&lease.key) {
            // While the store was asked, another copy began without it.
            let remaining = request.lease;
            let held = Ended::Answered(Claim::Held { remaining });
            (Release::Abandoned, held)
        } else if let Some(objection) = self.objection(&lease, policy) {
            let ended = ended_by(&objection, &lease);
            (objection, ended)
        } else {
            return Ok(Grant {
                unprotected: None,
                working,
                heartbeats: &self.heartbeats,
                lease,
                request,
                policy,
                claimed,
            });
        };
        drop(working);
        // Nothing ran: a lost lease changes nothing.
        let _ = self.release(&lease, &objection).await;
        Err(ended)
    }

    pub(super) fn objection(&self, lease: &Lease, policy: &Policy) -> Option<Release> {
        objection(lease, policy, self.is_closed(), true)
    }
}
