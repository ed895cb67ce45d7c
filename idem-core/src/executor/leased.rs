//! Leased execution: the work runs under a lease, its completion is a write of its own.

use std::{
    pin::{Pin, pin},
    sync::Arc,
};

use serde::Serialize;

use super::{
    Executor, Prepared, Requester, RunsOn,
    completion::complete,
    fail_open::OrLocal,
    grant::{Grant, judge},
    guarded,
    heartbeat::{Ran, WhileUnknown, extend, run_under_heartbeat},
    remembered,
    until_known::until_known,
};
use crate::{
    executor::{Cause, Execution},
    handler::{Context, Failure, Handler, Leased, Outcome, Policy, StoreOutage},
    store::{Lease, Release, Store, Write},
};

impl<S: Store> RunsOn<S> for Leased {
    fn limit(_: &Executor<S>) -> Option<usize> {
        None
    }

    async fn run<H, St>(
        executor: &Executor<S>,
        message: &mut Prepared<H>,
        state: &St,
    ) -> Execution<H::Output, H::Error>
    where
        H: Handler<St, Mode = Self>,
        St: Send + Sync + 'static,
    {
        if message.policy.observes() {
            return executor.observe(message, state).await;
        }
        let body = match message.take() {
            Ok(body) => body,
            Err(error) => return Execution::Undecodable { error },
        };
        let requester = Requester::of(&message.envelope);
        let grant = match executor.claim(&message.request, &message.policy).await {
            Ok(grant) => grant,
            Err(ended) => {
                message.put_back(body);
                return ended.into_execution(requester);
            }
        };
        let context = Context {
            state,
            envelope: &message.envelope,
            key: &message.request.key,
            attempt: grant.attempt(),
        };
        match guarded::call::<H, St>(body, &context, (), &executor.handlers) {
            Ok(work) => executor.run_leased(grant, pin!(work), requester).await,
            Err(error) => {
                // Nothing ran: if the key was lost meanwhile, that changes nothing for this message.
                let _ = executor.give_back(&grant, &Release::gave_up(&error)).await;
                Execution::Undecodable { error }
            }
        }
    }
}

impl<S: Store> Executor<S> {
    /// Runs the work under the lease, then completes or releases.
    ///
    /// It is pinned already, because each future that it is moved into has room for it twice.
    pub(super) async fn run_leased<T, E>(
        &self,
        mut grant: Grant<'_>,
        work: Pin<&mut (impl Future<Output = Result<T, E>> + Send)>,
        requester: Requester,
    ) -> Execution<T, E>
    where
        T: Serialize + Send,
        E: Failure,
    {
        if let Some(watch) = grant.unprotected.take() {
            let ended = run_on(watch.local(), grant, work, WhileUnknown::Rest, requester);
            return unprotected(Box::pin(ended).await);
        }
        if grant.policy.store_outage() == StoreOutage::FailClosed {
            return run_on(&self.store, grant, work, WhileUnknown::Rest, requester).await;
        }
        let or_local = Arc::new(OrLocal::new(&self.store, &self.local, grant.request));
        let ended = run_on(&or_local, grant, work, WhileUnknown::GoOn, requester);
        let ended = Box::pin(ended).await;
        if or_local.has_handed_over() {
            return unprotected(ended);
        }
        ended
    }

    /// Gives the key back, unrun, where it was claimed.
    async fn give_back(&self, grant: &Grant<'_>, reason: &Release) -> Write {
        match &grant.unprotected {
            None => self.release(&grant.lease, reason).await,
            Some(watch) => release(&**watch.local(), &grant.lease, reason).await,
        }
    }

    /// Gives the key back; waits out a store that is away, as the delivery does.
    pub(super) async fn release(&self, lease: &Lease, reason: &Release) -> Write {
        release(&*self.store, lease, reason).await
    }
}

/// What this process alone knows to be done.
fn unprotected<T, E>(ended: Execution<T, E>) -> Execution<T, E> {
    match ended {
        Execution::Executed {
            output,
            outcome,
            attempt,
        } => Execution::Unprotected {
            output,
            outcome,
            attempt,
        },
        ended => ended,
    }
}

async fn run_on<S: Store, T, E>(
    store: &Arc<S>,
    grant: Grant<'_>,
    work: Pin<&mut (impl Future<Output = Result<T, E>> + Send)>,
    while_unknown: WhileUnknown,
    requester: Requester,
) -> Execution<T, E>
where
    T: Serialize + Send,
    E: Failure,
{
    let Grant {
        lease,
        request,
        policy,
        claimed,
        working,
        heartbeats,
        ..
    } = grant;
    let extend = extend(store, &lease, request.lease);
    let lost = Execution::LeaseLost {
        attempt: lease.attempt,
    };
    let ran = run_under_heartbeat(
        heartbeats,
        work,
        extend,
        claimed,
        request.lease,
        while_unknown,
    )
    .await;
    let cause = match ran {
        Ran::Returned(Ok(output)) => {
            let outcome = remember(&output, &lease, policy);
            let completed = complete(store, &lease, outcome.clone(), request.retention, working);
            return match completed.await {
                Write::Applied => Execution::Executed {
                    output,
                    outcome,
                    attempt: lease.attempt,
                },
                Write::Fenced => lost,
            };
        }
        Ran::Returned(Err(error)) => guarded::cause(error),
        Ran::Panicked(message) => Cause::Panicked(message),
        Ran::LeaseLost => return lost,
    };
    if requester == Requester::Waits && cause.is_for_good() {
        let (refusal, outcome) =
            remembered::rejection(guarded::refusal(&cause), policy, &lease.key);
        let attempt = lease.attempt;
        return match complete(store, &lease, outcome, request.retention, working).await {
            Write::Applied => Execution::Refused { refusal, attempt },
            Write::Fenced => lost,
        };
    }
    let (reason, ended) = judge(cause, &lease, policy);
    match release(&**store, &lease, &reason).await {
        Write::Applied => ended,
        Write::Fenced => lost,
    }
}

/// What is remembered of an output. The effect has happened: that it cannot be remembered is no
/// reason to repeat it.
pub(super) fn remember(output: &impl Serialize, lease: &Lease, policy: &Policy) -> Outcome {
    remembered::output(output, policy).unwrap_or_else(|refusal| {
        tracing::error!(key = %lease.key, code = refusal.code(), error = %refusal, "done, but its output cannot be remembered: copies are told so");
        Outcome::forgotten(&refusal)
    })
}

pub(super) async fn release<S: Store>(store: &S, lease: &Lease, reason: &Release) -> Write {
    until_known("release", &lease.key, || store.release(lease, reason)).await
}
