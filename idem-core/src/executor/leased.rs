//! Leased execution: the work runs under a lease, its completion is a write of its own.
//!
//! Observed work, and work that fails open, is leased work whose [`Protection`] is another.

use std::time::Duration;

use serde::Serialize;

use super::{
    Executor, Prepared, RunsOn,
    attempt::{Begun, Claiming, Job, attempt},
    grant::{Grant, Protection, release, tell},
    guarded,
    heartbeat::{KeptLease, Moment, Ran},
    remembered,
    verdict::{End, Ended, ended_by, lease_lost, objection, unsuccessful},
};
use crate::{
    executor::{Cause, Execution},
    futures::FutureExt as _,
    handler::{Attempt, Failure, Handler, Leased, Mode, Operation, Outcome, Policy, StoreOutage},
    message::Envelope,
    store::{Claim, Lease, Release, Store, StoreError, Write},
    stores::measured::Measured,
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
        attempt::<Grant<S>, S, H, St>(executor, message, state, None).await
    }
}

impl<S: Store> Job<'_, S> {
    /// Claims as the policy says; what is observed is always granted, unless nothing is to start any more.
    pub(super) async fn grant(&self) -> Result<Begun<Grant<S>, ()>, Ended> {
        if self.policy.observes() {
            return self.observe().await;
        }
        self.claim().await
    }

    /// Claims for work that is enforced.
    pub(super) async fn claim(&self) -> Result<Begun<Grant<S>, ()>, Ended> {
        if let Some(answer) = self.executor.local.look(self.request) {
            return self.claim_remembered(answer);
        }
        let claimed = Moment::now();
        match self.executor.ask(self.request, self.policy).await {
            Ok(Claim::Acquired(lease)) => self.acquired(lease, claimed).await,
            Ok(answer) => Err(Ended::Answered(answer)),
            Err(error @ StoreError::Unavailable(_))
                if self.policy.store_outage() == StoreOutage::FailOpen =>
            {
                self.claim_locally(error)
            }
            Err(error) => Err(Ended::Unavailable(error)),
        }
    }

    /// Looks at a lease that the store has given, and gives it back if something speaks against
    /// running.
    async fn acquired(&self, lease: Lease, claimed: Moment) -> Result<Begun<Grant<S>, ()>, Ended> {
        let executor = self.executor;
        let working = executor.working(self.request);
        let (objection, ended) = if executor.local.remembers(&lease.key) {
            // While the store was asked, another copy began without it.
            let remaining = self.request.lease;
            let held = Ended::Answered(Claim::Held { remaining });
            (Release::Abandoned, held)
        } else if let Some(objection) = self.objection(&lease) {
            let ended = ended_by(&objection, &lease);
            (objection, ended)
        } else {
            let protection = Protection::of_store(self);
            return Ok(self.granted(lease, claimed, Some(working), protection));
        };
        drop(working);
        // Nothing ran: a lost lease changes nothing.
        let _ = executor.release(&lease, &objection).await;
        Err(ended)
    }

    pub(super) fn objection(&self, lease: &Lease) -> Option<Release> {
        objection(lease, self.policy, self.executor.is_closed(), true)
    }
}

impl<S: Store> Grant<S> {
    /// Completes or releases the key.
    pub(super) async fn finish<T, E>(
        self,
        job: &mut Job<'_, S>,
        ran: Ran<Result<T, E>>,
    ) -> Execution<T, E>
    where
        T: Serialize + Send,
        E: Failure,
    {
        let (lease, policy) = (&self.lease, job.policy);
        let attempt = lease.attempt;
        let cause = match ran {
            Ran::Returned(Ok(output)) => {
                let outcome = remember(&output, lease, policy);
                let end = End::Completed(outcome.clone());
                let executed = Execution::Executed {
                    output,
                    outcome,
                    attempt,
                };
                return self.end(job, end, executed).await;
            }
            Ran::Returned(Err(error)) => guarded::cause(error),
            Ran::Panicked(message) => Cause::Panicked(message),
            Ran::Overdue(overdue) => Cause::Refused(overdue.to_string()),
            Ran::LeaseLost => return lease_lost(lease),
        };
        let (end, ended) = unsuccessful(cause, lease, policy, job.requester);
        self.end(job, end, ended).await
    }

    /// Tells whoever has given the lease how it ended.
    async fn end<T: Send, E: Failure>(
        self,
        job: &mut Job<'_, S>,
        end: End,
        ended: Execution<T, E>,
    ) -> Execution<T, E> {
        let Self {
            lease,
            working,
            protection,
        } = self;
        let (executor, retention) = (job.executor, job.request.retention);
        let written = match &protection {
            Protection::Store => tell(&executor.store, &lease, end, retention, working).await,
            Protection::OrLocal(store) => {
                // What few messages come to is a future of its own, so that the others' are small.
                Box::pin(tell(store, &lease, end, retention, working)).await
            }
            Protection::Local(watch) => {
                Box::pin(tell(watch.local(), &lease, end, retention, working)).await
            }
            Protection::Observed(observed) => {
                let ended = observed.end(job, lease, working, end, ended);
                return Box::pin(ended).await;
            }
        };
        match (written, protection) {
            (Write::Fenced, _) => lease_lost(&lease),
            (Write::Applied, Protection::Local(_)) => unprotected(ended),
            (Write::Applied, Protection::OrLocal(store)) if store.has_handed_over() => {
                unprotected(ended)
            }
            (Write::Applied, _) => ended,
        }
    }
}

impl<S: Store, H: Operation<Mode = Leased>> Claiming<S, H> for Grant<S> {
    type Transaction = ();
    type Ended = Execution<H::Output, H::Error>;

    fn claim(
        job: &mut Job<'_, S>,
        _: &H::Message,
        _: &Envelope,
    ) -> impl Future<Output = Result<Begun<Self, ()>, Self::Ended>> {
        let requester = job.requester;
        job.grant()
            .map(move |begun| begun.map_err(|ended| ended.into_execution(requester)))
    }

    fn attempt(&self, policy: &Policy) -> Attempt {
        self.attempt(policy)
    }

    fn limit(_: &Measured<S>) -> Option<Duration> {
        None
    }

    fn lend((): &mut ()) -> <H::Mode as Mode>::Lent<'_> {}

    async fn uncalled(
        self,
        job: &mut Job<'_, S>,
        (): (),
        kept: KeptLease,
        error: String,
    ) -> Self::Ended {
        drop(kept);
        // Nothing ran: if the key was lost meanwhile, that changes nothing for this message.
        self.give_back(job.executor, Release::gave_up(&error)).await;
        Execution::Undecodable { error }
    }

    async fn finish(
        self,
        job: &mut Job<'_, S>,
        (): (),
        kept: KeptLease,
        ran: Ran<Result<H::Output, H::Error>>,
    ) -> Self::Ended {
        drop(kept);
        self.finish(job, ran).await
    }
}

impl<S: Store> Grant<S> {
    /// Gives the key back, unrun, where it was claimed.
    async fn give_back(self, executor: &Executor<S>, reason: Release) {
        match &self.protection {
            Protection::Store | Protection::OrLocal(_) => {
                let _ = executor.release(&self.lease, &reason).await;
            }
            Protection::Local(watch) => {
                let _ = release(&**watch.local(), &self.lease, &reason).await;
            }
            Protection::Observed(_) => self.give_back_observed(executor, reason).await,
        }
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

/// What is remembered of an output. The effect has happened: that it cannot be remembered is no
/// reason to repeat it.
fn remember(output: &impl Serialize, lease: &Lease, policy: &Policy) -> Outcome {
    remembered::output(output, policy).unwrap_or_else(|refusal| {
        tracing::error!(key = %lease.key, code = refusal.code(), error = %refusal, "done, but its output cannot be remembered: copies are told so");
        Outcome::forgotten(&refusal)
    })
}
