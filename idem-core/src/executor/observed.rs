//! Observed execution: the store is asked and told as ever, and nothing that it says stops the work.

use std::{
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt as _;
use serde::Serialize;
use tokio::time::timeout;
use tracing::Instrument as _;

use super::{
    Executor, Prepared, Requester,
    completion::complete,
    grant::{Ended, ended_by, judge, objection},
    guarded::{self, panic_message},
    heartbeat::{Moment, Ran, WhileUnknown, extend, run_under_heartbeat},
    in_flight::Working,
    leased::{release, remember},
    remembered,
};
use crate::{
    executor::{Cause, Execution, ExecutionKind},
    handler::{Attempt, Context, Failed, Failure, FencingToken, Handler, Outcome, Policy},
    message::Key,
    store::{Claim, ClaimRequest, Lease, Release, Store, StoreError, Write},
};

/// How long an observed message waits for the store, each time that it is asked or told.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was found out about a message before it runs.
struct ObservedClaim {
    /// The store's, or one that stands for it and that no store has given.
    lease: Lease,
    /// If it is the store's.
    held: Option<Held>,
    would_have_been: Option<ExecutionKind>,
}

struct Held {
    claimed: Moment,
    working: Working,
}

/// How the store is told that it ended.
enum End {
    Completed(Outcome),
    Released(Release),
}

impl ObservedClaim {
    /// Of what the store has given no lease for.
    fn unclaimed(key: &Key, earlier: u32, would_have_been: ExecutionKind) -> Self {
        let attempt = earlier.saturating_add(1);
        Self {
            lease: Lease::new(key.clone(), FencingToken::new(0), attempt, false),
            held: None,
            would_have_been: Some(would_have_been),
        }
    }

    fn attempt(&self, policy: &Policy) -> Attempt {
        let attempt = self.lease.to_attempt(policy.max_attempts());
        match self.held {
            Some(_) => attempt,
            None => attempt.unprotected(),
        }
    }
}

impl<S: Store> Executor<S> {
    /// Runs the work, whatever the store says.
    pub(super) async fn execute_observed<T, E, F, Fut>(
        &self,
        request: &ClaimRequest,
        policy: &Policy,
        work: F,
    ) -> Execution<T, E>
    where
        T: Serialize + Send,
        E: Failure,
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        let observed = self
            .claim_observed(request, policy, Requester::Nobody, 0)
            .await;
        if self.is_closed() {
            self.give_back_unrun(observed, Release::Abandoned).await;
            return Execution::Abandoned;
        }
        let (handler, attempt) = (request.key.scope(), observed.attempt(policy));
        let work = pin!(self.handlers.run(
            handler,
            attempt.number(),
            attempt.is_in_doubt(),
            work(attempt)
        ));
        let ran = self.run_observed(observed, request, policy, work, Requester::Nobody);
        let (ended, _) = ran.await;
        self.count_lost_lease(handler, &ended);
        ended
    }

    /// Runs a handler for a message, whatever the store says.
    pub(super) async fn observe<H, St>(
        &self,
        message: &mut Prepared<H>,
        state: &St,
    ) -> Execution<H::Output, H::Error>
    where
        H: Handler<St, Mode = crate::handler::Leased>,
        St: Send + Sync + 'static,
    {
        let body = match message.take() {
            Ok(body) => body,
            Err(error) => return Execution::Undecodable { error },
        };
        let (request, policy) = (&message.request, &message.policy);
        let requester = Requester::of(&message.envelope);
        let observed = match &message.keyless {
            Some(error) => {
                tracing::debug!(key = %request.key, %error, "the message has no usable key, and runs under one of its own");
                ObservedClaim::unclaimed(&request.key, message.earlier, ExecutionKind::Keyless)
            }
            None => {
                self.claim_observed(request, policy, requester, message.earlier)
                    .await
            }
        };
        if self.is_closed() {
            self.give_back_unrun(observed, Release::Abandoned).await;
            message.put_back(body);
            return Execution::Abandoned;
        }
        let context = Context {
            state,
            envelope: &message.envelope,
            key: &request.key,
            attempt: observed.attempt(policy),
        };
        match guarded::call::<H, St>(body, &context, (), &self.handlers) {
            Ok(work) => {
                let work = pin!(work);
                let (attempt, is_claimed) = (observed.lease.attempt, observed.held.is_some());
                let ran = self.run_observed(observed, request, policy, work, requester);
                let (execution, would_have_been) = ran.await;
                message.would_have_been = would_have_been;
                if !is_claimed {
                    // No record has counted it, should the same delivery be tried again.
                    message.earlier = attempt;
                }
                execution
            }
            Err(error) => {
                self.give_back_unrun(observed, Release::gave_up(&error))
                    .await;
                Execution::Undecodable { error }
            }
        }
    }

    /// Claims, and finds out what an answer would have meant.
    async fn claim_observed(
        &self,
        request: &ClaimRequest,
        policy: &Policy,
        requester: Requester,
        earlier: u32,
    ) -> ObservedClaim {
        let claimed = Moment::now();
        let answer = timeout(PATIENCE, self.store.claim(request)).await;
        let ended = match answer {
            Ok(Ok(Claim::Acquired(lease))) => {
                let objection = objection(&lease, policy, false, true);
                let ended = objection.map(|objection| ended_by(&objection, &lease));
                return ObservedClaim {
                    would_have_been: ended.map(|ended| kind(ended, requester)),
                    held: Some(Held {
                        claimed,
                        working: self.working(request),
                    }),
                    lease,
                };
            }
            // While somebody is at it, no store says what he is at.
            Ok(Ok(Claim::Held { .. })) if self.in_flight.has_other_content(request) => {
                Ended::Answered(Claim::KeyReused)
            }
            Ok(Ok(answer)) => Ended::Answered(answer),
            Ok(Err(error)) => unavailable(request, error),
            Err(_) => unavailable(request, StoreError::unavailable("it did not answer")),
        };
        ObservedClaim::unclaimed(&request.key, earlier, kind(ended, requester))
    }

    /// Runs the work to its end; says how it ended, and how it would have.
    async fn run_observed<T, E>(
        &self,
        observed: ObservedClaim,
        request: &ClaimRequest,
        policy: &Policy,
        work: Pin<&mut (impl Future<Output = Result<T, E>> + Send)>,
        requester: Requester,
    ) -> (Execution<T, E>, Option<ExecutionKind>)
    where
        T: Serialize + Send,
        E: Failure,
    {
        let attempt = observed.lease.attempt;
        let cause = match self.run_to_its_end(&observed, request, work).await {
            Ran::Returned(Ok(output)) => {
                let outcome = remember(&output, &observed.lease, policy);
                let completed = End::Completed(outcome.clone());
                let would_have_been = self.settle(observed, completed, request).await;
                let observed = Execution::Observed {
                    output,
                    outcome,
                    attempt,
                    would_have_been,
                };
                return (observed, would_have_been);
            }
            Ran::Returned(Err(error)) => guarded::cause(error),
            Ran::Panicked(message) => Cause::Panicked(message),
            Ran::LeaseLost => unreachable!("what becomes of the lease is of no matter"),
        };
        let (end, ended) = if requester == Requester::Waits && cause.is_for_good() {
            let refusal = guarded::refusal(&cause);
            let (refusal, outcome) = remembered::rejection(refusal, policy, &request.key);
            let refused = Execution::Refused { refusal, attempt };
            (End::Completed(outcome), refused)
        } else {
            let (reason, ended) = judge(cause, &observed.lease, policy);
            (End::Released(reason), ended)
        };
        let would_have_been = self.settle(observed, end, request).await;
        (ended, would_have_been)
    }

    async fn run_to_its_end<T: Send>(
        &self,
        observed: &ObservedClaim,
        request: &ClaimRequest,
        work: impl Future<Output = T> + Send,
    ) -> Ran<T> {
        let Some(held) = &observed.held else {
            return match AssertUnwindSafe(work).catch_unwind().await {
                Ok(returned) => Ran::Returned(returned),
                Err(panic) => Ran::Panicked(panic_message(&*panic)),
            };
        };
        let by = request.lease;
        let extend = extend(&self.store, &observed.lease, by);
        let (heartbeats, claimed) = (&self.heartbeats, held.claimed);
        run_under_heartbeat(
            heartbeats,
            work,
            extend,
            claimed,
            by,
            WhileUnknown::NoMatter,
        )
        .await
    }

    /// Tells the store how what ran has ended, and says how it would have.
    async fn settle(
        &self,
        observed: ObservedClaim,
        end: End,
        request: &ClaimRequest,
    ) -> Option<ExecutionKind> {
        let ObservedClaim {
            lease,
            held,
            mut would_have_been,
        } = observed;
        let attempt = lease.attempt;
        if let Some(held) = held
            && self.tell(lease, held, end, request.retention).await == Some(Write::Fenced)
        {
            would_have_been = would_have_been.or(Some(ExecutionKind::LeaseLost));
        }
        if would_have_been == Some(ExecutionKind::Conflict)
            && self.is_reused_after_all(request).await
        {
            would_have_been = Some(ExecutionKind::KeyReused);
        }
        if let Some(kind) = would_have_been {
            tracing::debug!(key = %request.key, attempt, would_have_been = kind.label(), "it ran because its policy is to observe");
        }
        would_have_been
    }

    /// Asks the store once more about a message that met another one at work, elsewhere perhaps: if that has ended by
    /// now, the store compares the two. What is acquired by that is given back: the message has run.
    async fn is_reused_after_all(&self, request: &ClaimRequest) -> bool {
        match timeout(PATIENCE, self.store.claim(request)).await {
            Ok(Ok(Claim::KeyReused)) => true,
            Ok(Ok(Claim::Acquired(lease))) => {
                let given_back = release(&*self.store, &lease, &Release::Abandoned);
                // Else its lease runs out.
                let _ = timeout(PATIENCE, given_back).await;
                false
            }
            _ => false,
        }
    }

    async fn give_back_unrun(&self, observed: ObservedClaim, reason: Release) {
        if let Some(held) = observed.held {
            // Nothing ran: a lost lease changes nothing.
            let unrun = End::Released(reason);
            self.tell(observed.lease, held, unrun, Duration::ZERO).await;
        }
    }

    /// Tells the store, and waits a moment for its answer; after that it is told in the background.
    async fn tell(&self, lease: Lease, held: Held, end: End, retention: Duration) -> Option<Write> {
        let store = Arc::clone(&self.store);
        let told = async move {
            match end {
                End::Completed(outcome) => {
                    complete(&store, &lease, outcome, retention, held.working).await
                }
                End::Released(reason) => {
                    let _working = held.working;
                    release(&*store, &lease, &reason).await
                }
            }
        };
        let told = tokio::spawn(told.in_current_span());
        timeout(PATIENCE, told).await.ok()?.ok()
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
