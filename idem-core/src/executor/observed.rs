//! Observed execution: the store is asked and told as ever, and nothing that it says stops the work.
//!
//! It is leased work whose [`Protection`] is [`Observed`]; [`attempt`](super::attempt) runs it.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;
use tracing::Instrument as _;

use super::{
    Executor, Requester,
    attempt::{Begun, Job},
    grant::{Grant, Observed, Protection, tell},
    heartbeat::Moment,
    in_flight::Working,
    verdict::{End, Ended, ended_by, objection},
};
use crate::{
    executor::{Execution, ExecutionKind},
    handler::{Failed, FencingToken},
    store::{Claim, ClaimRequest, Lease, Release, Store, StoreError, Write},
};

/// How long an observed message waits for the store, each time that it is asked or told.
const PATIENCE: Duration = Duration::from_secs(1);

impl<S: Store> Job<'_, S> {
    /// Claims, and finds out what an answer would have meant. Whatever that is, the work runs, unless nothing is to
    /// start any more.
    pub(super) async fn observe(&self) -> Result<Begun<Grant<S>, ()>, Ended> {
        let executor = self.executor;
        let begun = match self.keyless {
            Some(error) => {
                tracing::debug!(key = %self.request.key, %error, "the message has no usable key, and runs under one of its own");
                self.unclaimed(ExecutionKind::Keyless)
            }
            None => self.claim_observed().await,
        };
        if executor.is_closed() {
            drop(begun.kept);
            let unrun = Release::Abandoned;
            begun.claim.give_back_observed(executor, unrun).await;
            return Err(Ended::Abandoned);
        }
        Ok(begun)
    }

    async fn claim_observed(&self) -> Begun<Grant<S>, ()> {
        let executor = self.executor;
        let claimed = Moment::now();
        let answer = timeout(PATIENCE, executor.store.claim(self.request)).await;
        let ended = match answer {
            Ok(Ok(Claim::Acquired(lease))) => {
                let objection = objection(&lease, self.policy, false, true);
                let ended = objection.map(|objection| ended_by(&objection, &lease));
                let would_have_been = ended.map(|ended| kind(ended, self.requester));
                let working = executor.working(self.request);
                let observed = Protection::Observed(Observed { would_have_been });
                return self.granted(lease, claimed, Some(working), observed);
            }
            // While somebody is at it, no store says what he is at.
            Ok(Ok(Claim::Held { .. })) if executor.in_flight.has_other_content(self.request) => {
                Ended::Answered(Claim::KeyReused)
            }
            Ok(Ok(answer)) => Ended::Answered(answer),
            Ok(Err(error)) => unavailable(self.request, error),
            Err(_) => unavailable(self.request, StoreError::unavailable("it did not answer")),
        };
        let would_have_been = kind(ended, self.requester);
        self.unclaimed(would_have_been)
    }

    /// Leave to run what the store has given no lease for: one stands for it that no store has given.
    fn unclaimed(&self, would_have_been: ExecutionKind) -> Begun<Grant<S>, ()> {
        let attempt = self.history.earlier.saturating_add(1);
        let key = self.request.key.clone();
        let lease = Lease::new(key, FencingToken::new(0), attempt, false);
        let would_have_been = Some(would_have_been);
        let observed = Protection::Observed(Observed { would_have_been });
        self.granted(lease, Moment::now(), None, observed)
    }
}

impl Observed {
    /// Tells the store how what ran has ended, and notes how it would have.
    pub(super) async fn end<S: Store, T, E>(
        &self,
        job: &mut Job<'_, S>,
        lease: Lease,
        working: Option<Working>,
        end: End,
        ended: Execution<T, E>,
    ) -> Execution<T, E> {
        let Job {
            executor,
            request,
            history,
            ..
        } = job;
        let attempt = lease.attempt;
        let mut would_have_been = self.would_have_been;
        if working.is_none() {
            // No record has counted it, should the same delivery be tried again.
            history.earlier = attempt;
        } else if tell_shortly(executor, lease, end, request.retention, working).await
            == Some(Write::Fenced)
        {
            would_have_been = would_have_been.or(Some(ExecutionKind::LeaseLost));
        }
        if would_have_been == Some(ExecutionKind::Conflict)
            && is_reused_after_all(executor, request).await
        {
            would_have_been = Some(ExecutionKind::KeyReused);
        }
        if let Some(kind) = would_have_been {
            tracing::debug!(key = %request.key, attempt, would_have_been = kind.label(), "it ran because its policy is to observe");
        }
        history.would_have_been = would_have_been;
        match ended {
            Execution::Executed {
                output,
                outcome,
                attempt,
            } => Execution::Observed {
                output,
                outcome,
                attempt,
                would_have_been,
            },
            ended => ended,
        }
    }
}

impl<S: Store> Grant<S> {
    pub(super) async fn give_back_observed(self, executor: &Executor<S>, reason: Release) {
        if self.working.is_some() {
            // Nothing ran: a lost lease changes nothing.
            let unrun = End::Released(reason);
            tell_shortly(executor, self.lease, unrun, Duration::ZERO, self.working).await;
        }
    }
}

/// Tells the store, and waits a moment for its answer; after that it is told in the background.
async fn tell_shortly<S: Store>(
    executor: &Executor<S>,
    lease: Lease,
    end: End,
    retention: Duration,
    working: Option<Working>,
) -> Option<Write> {
    let store = Arc::clone(&executor.store);
    let told = async move { tell(&store, &lease, end, retention, working).await };
    let told = tokio::spawn(told.in_current_span());
    timeout(PATIENCE, told).await.ok()?.ok()
}

/// Asks the store once more about a message that met another one at work, elsewhere perhaps: if that has ended by
/// now, the store compares the two. What is acquired by that is given back: the message has run.
async fn is_reused_after_all<S: Store>(executor: &Executor<S>, request: &ClaimRequest) -> bool {
    match timeout(PATIENCE, executor.store.claim(request)).await {
        Ok(Ok(Claim::KeyReused)) => true,
        Ok(Ok(Claim::Acquired(lease))) => {
            let given_back = executor.release(&lease, &Release::Abandoned);
            // Else its lease runs out.
            let _ = timeout(PATIENCE, given_back).await;
            false
        }
        _ => false,
    }
}

fn unavailable(request: &ClaimRequest, error: StoreError) -> Ended {
    let cause: &(dyn std::error::Error + 'static) = &error;
    tracing::warn!(key = %request.key, error = cause, "the store cannot be asked, and the message runs: its policy is to observe");
    Ended::Unavailable(error)
}

/// How a message would have ended after which nothing runs.
fn kind(ended: Ended, requester: Requester) -> ExecutionKind {
    ended.into_execution::<(), Failed>(requester).kind()
}
