//! Observed execution: the store is asked and told as ever, and nothing that it says stops the work.
//!
//! It is leased work whose [`Protection`] is [`Observed`]; [`attempt`](super::attempt) runs it. What must stay true:
//!
//! - No answer of the store's, no error and no lost lease keeps a message from running or drops its handler.
//! - No message waits for the store for longer than [`PATIENCE`] at a time.
//! - A closed executor starts nothing all the same.
// docs/decisions/0024

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;
use tracing::Instrument as _;

use super::{
    Executor, Requester,
    attempt::{Granted, Job},
    heartbeat::Moment,
    in_flight::Working,
    leased_claim::{LeasedClaim, Observed, Protection, write_until_known},
    verdict::{KeyEnd, NotRun, Objection},
};
use crate::{
    executor::{Execution, ExecutionKind},
    handler::Failed,
    store::{Claim, ClaimRequest, Lease, Release, Store, StoreError, Write},
};

/// How long an observed message waits for the store, each time that it is asked or told. The policy promises that
/// observing delays no message for long, also when the store hangs.
const PATIENCE: Duration = Duration::from_secs(1);

impl<S: Store> Job<'_, S> {
    /// Claims, and finds out how the message would have ended if its policy were enforced. The work runs all
    /// the same, unless the executor is closed.
    pub(super) async fn observe(&self) -> Result<Granted<LeasedClaim<S>, ()>, NotRun> {
        let executor = self.executor;
        let granted = match self.keyless {
            Some(error) => {
                tracing::debug!(key = %self.request.key, %error, "the message has no usable key, and runs under one of its own");
                self.unclaimed(ExecutionKind::Keyless)
            }
            None => self.claim_observed().await,
        };
        // The only reason not to run: the process is about to end, and the message will be delivered again.
        if executor.is_closed() {
            drop(granted.kept);
            let unrun = Release::Abandoned;
            granted.claim.give_back_observed(executor, unrun).await;
            return Err(NotRun::Abandoned);
        }
        Ok(granted)
    }

    /// Claims, and grants whatever the answer is. A claim that is not answered in time may have been recorded: nobody
    /// extends its lease, which runs out, and the same owner has it back if it asks before that.
    async fn claim_observed(&self) -> Granted<LeasedClaim<S>, ()> {
        let executor = self.executor;
        // Before the call: the lease is never thought to end later than it does.
        let claimed = Moment::now();
        let answer = timeout(PATIENCE, executor.store.claim(self.request)).await;
        let ended = match answer {
            Ok(Ok(Claim::Acquired(lease))) => {
                // An enforced attempt would be given back for this. Here it is only noted, and the claim is kept, so
                // that copies are known for copies.
                let objection = Objection::to(&lease, self.policy, false, true);
                let would_have_been = objection.map(|it| kind(it.into(), self.requester));
                let working = executor.working(self.request);
                let observed = Protection::Observed(Observed { would_have_been });
                return self.granted(lease, claimed, Some(working), observed);
            }
            // While a key is held, no store compares the content (rule 9 of the contract). If the other worker is in
            // this process, its content is known here.
            Ok(Ok(Claim::Held { .. })) if executor.in_flight.has_other_content(self.request) => {
                NotRun::Answered(Claim::KeyReused)
            }
            Ok(Ok(answer)) => NotRun::Answered(answer),
            // Any error: enforced, the message would not have run.
            Ok(Err(error)) => unavailable(self.request, error),
            Err(_) => unavailable(self.request, StoreError::unavailable("it did not answer")),
        };
        // It has no lease: enforced, it would have ended like this, and not run.
        let would_have_been = kind(ended, self.requester);
        self.unclaimed(would_have_been)
    }

    /// Grants what the store has given no lease for.
    fn unclaimed(&self, would_have_been: ExecutionKind) -> Granted<LeasedClaim<S>, ()> {
        let lease = self.made_up_lease();
        let would_have_been = Some(would_have_been);
        let observed = Protection::Observed(Observed { would_have_been });
        self.granted(lease, Moment::now(), None, observed)
    }
}

impl Observed {
    /// Tells the store how the attempt ended, if it was claimed, and notes how the message would have ended without
    /// running. The result is `execution`; a success is [`Execution::Observed`], which promises nothing of the store.
    pub(super) async fn end_observed<S: Store, T, E>(
        &self,
        job: &mut Job<'_, S>,
        lease: Lease,
        working: Option<Working>,
        key_end: KeyEnd,
        execution: Execution<T, E>,
    ) -> Execution<T, E> {
        let Job {
            executor,
            request,
            history,
            ..
        } = job;
        let attempt = lease.attempt;
        // First the store, if it has given a lease. What it answers only adds to what is known.
        let mut would_have_been = self.would_have_been;
        if working.is_none() {
            // No record has counted this attempt. Without this count the attempts of one delivery would never be used
            // up.
            history.earlier = attempt;
        } else if tell_shortly(executor, lease, key_end, request.retention, working).await
            == Some(Write::Fenced)
        {
            // What was known before the run comes first: enforced, there would have been no lease to lose.
            would_have_been = would_have_been.or(Some(ExecutionKind::LeaseLost));
        }
        // While a key is held elsewhere, no store compares the content. By now the holder may have completed, and it
        // does.
        if would_have_been == Some(ExecutionKind::Conflict)
            && is_reused_after_all(executor, request).await
        {
            would_have_been = Some(ExecutionKind::KeyReused);
        }
        if let Some(kind) = would_have_been {
            tracing::debug!(key = %request.key, attempt, would_have_been = kind.label(), "it ran because its policy is to observe");
        }
        // Kept for the transport, which reports it with the message.
        history.would_have_been = would_have_been;
        // Also if the store took the completion: a copy of the message would run all the same.
        execution.if_executed(|output, outcome, attempt| Execution::Observed {
            output,
            outcome,
            attempt,
            would_have_been,
        })
    }
}

impl<S: Store> LeasedClaim<S> {
    /// Gives an observed key back of which nothing ran, if the store has given it.
    pub(super) async fn give_back_observed(self, executor: &Executor<S>, reason: Release) {
        if self.working.is_some() {
            // Nothing ran: a lost lease changes nothing.
            let unrun = KeyEnd::Released(reason);
            tell_shortly(executor, self.lease, unrun, Duration::ZERO, self.working).await;
        }
    }
}

/// Tells the store how an attempt ended, and waits for [`PATIENCE`]; `None` if there was no answer by then.
///
/// It goes on in the background after that, and also if this is dropped: the next copy is to be known for one.
async fn tell_shortly<S: Store>(
    executor: &Executor<S>,
    lease: Lease,
    end: KeyEnd,
    retention: Duration,
    working: Option<Working>,
) -> Option<Write> {
    let store = Arc::clone(&executor.store);
    // As an enforced end is written, and repeated; only the wait for it is short.
    let told = async move { write_until_known(&store, &lease, end, retention, working).await };
    // A task of its own: the timeout drops only the handle, and the task goes on.
    let told = tokio::spawn(told.in_current_span());
    timeout(PATIENCE, told).await.ok()?.ok()
}

/// Whether a message that found its key held has other content than the holder's. The store is asked once more:
/// if the holder has completed by now, the store compares the two.
///
/// If the key is free by now, this acquires it. It is given back as no attempt, because the message has run already.
async fn is_reused_after_all<S: Store>(executor: &Executor<S>, request: &ClaimRequest) -> bool {
    match timeout(PATIENCE, executor.store.claim(request)).await {
        Ok(Ok(Claim::KeyReused)) => true,
        Ok(Ok(Claim::Acquired(lease))) => {
            let given_back = executor.release(&lease, &Release::Abandoned);
            // If that is not answered in time, the lease runs out.
            let _ = timeout(PATIENCE, given_back).await;
            false
        }
        _ => false,
    }
}

/// A store that could not be asked. It is logged here, because the message runs and no error comes of it.
fn unavailable(request: &ClaimRequest, error: StoreError) -> NotRun {
    let cause: &(dyn std::error::Error + 'static) = &error;
    tracing::warn!(key = %request.key, error = cause, "the store cannot be asked, and the message runs: its policy is to observe");
    NotRun::Unavailable(error)
}

/// The kind of how an enforced message would have ended. No handler ran for it, so its types do not matter.
fn kind(ended: NotRun, requester: Requester) -> ExecutionKind {
    ended.into_execution::<(), Failed>(requester).kind()
}
