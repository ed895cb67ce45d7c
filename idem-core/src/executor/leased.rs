//! Leased execution: the work runs under a lease, its completion is a write of its own.

use std::sync::Arc;

use serde::Serialize;

use super::{
    Executor, Prepared, RunsOn,
    grant::{Grant, judge},
    guarded,
    heartbeat::{Ran, Untold, run_under_heartbeat},
    until_known::{error_chain, until_known},
};
use crate::{
    Cause, Context, Execution, Failure, Handler, Lease, Leased, Outcome, Release, Store, Write,
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
        let body = match message.take() {
            Ok(body) => body,
            Err(error) => return Execution::Undecodable { error },
        };
        let grant = match executor.claim(&message.request, &message.policy).await {
            Ok(grant) => grant,
            Err(ended) => {
                message.put_back(body);
                return ended.into_execution();
            }
        };
        let context = Context {
            state,
            envelope: &message.envelope,
            key: &message.request.key,
            attempt: grant.attempt(),
        };
        match guarded::call::<H, St>(body, &context, ()) {
            Ok(work) => executor.run_leased(grant, work).await,
            Err(error) => {
                // Nothing ran: if the key was lost meanwhile, that changes nothing for this message.
                let _ = executor
                    .release(&grant.lease, &Release::gave_up(&error))
                    .await;
                Execution::Undecodable { error }
            }
        }
    }
}

impl<S: Store> Executor<S> {
    /// Runs the work under the lease, then completes or releases.
    pub(super) async fn run_leased<T, E>(
        &self,
        grant: Grant<'_>,
        work: impl Future<Output = Result<T, E>> + Send,
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
            working: _working,
        } = grant;
        let (store, extended, by) = (Arc::clone(&self.store), lease.clone(), request.lease);
        let extend = move || {
            let (store, lease) = (Arc::clone(&store), extended.clone());
            async move { store.extend(&lease, by).await }
        };
        let cause =
            match run_under_heartbeat(work, extend, claimed, request.lease, Untold::Rest).await {
                Ran::Returned(Ok(output)) => {
                    return self
                        .complete_leased(output, &lease, request.retention)
                        .await;
                }
                Ran::Returned(Err(error)) => guarded::cause(error),
                Ran::Panicked(message) => Cause::Panicked(message),
                Ran::LeaseLost => {
                    return Execution::LeaseLost {
                        attempt: lease.attempt,
                    };
                }
            };
        let (release, ended) = judge(cause, &lease, policy);
        match self.release(&lease, &release).await {
            Write::Applied => ended,
            Write::Fenced => Execution::LeaseLost {
                attempt: lease.attempt,
            },
        }
    }

    async fn complete_leased<T: Serialize, E>(
        &self,
        output: T,
        lease: &Lease,
        retention: std::time::Duration,
    ) -> Execution<T, E> {
        let attempt = lease.attempt;
        // The effect has happened: an output that JSON cannot express is no reason to repeat it.
        let outcome = guarded::outcome(&output).unwrap_or_else(|error| {
            tracing::error!(key = %lease.key, %error, "the output cannot be remembered: it is not expressible as JSON");
            Outcome::default()
        });
        match self.complete(lease, outcome, retention).await {
            Write::Applied => Execution::Executed { output, attempt },
            Write::Fenced => Execution::LeaseLost { attempt },
        }
    }

    /// Completes, and keeps at it in the background if the answer is lost, even when the caller
    /// goes away: the work is done and must not run again.
    async fn complete(
        &self,
        lease: &Lease,
        outcome: Outcome,
        retention: std::time::Duration,
    ) -> Write {
        let error = match self.store.complete(lease, &outcome, retention).await {
            Ok(write) => return write,
            Err(error) => error,
        };
        tracing::warn!(key = %lease.key, error = error_chain(&error), "completion unknown, repeating it until the store tells");
        let (store, lease) = (Arc::clone(&self.store), lease.clone());
        let repeat = tokio::spawn(async move {
            until_known("complete", &lease.key, || {
                store.complete(&lease, &outcome, retention)
            })
            .await
        });
        // The task can only fail when the runtime shuts down, and this future with it.
        repeat.await.unwrap_or(Write::Fenced)
    }

    /// Gives the key back; waits out a store that is away, as the delivery does.
    pub(super) async fn release(&self, lease: &Lease, reason: &Release) -> Write {
        until_known("release", &lease.key, || self.store.release(lease, reason)).await
    }
}
