//! Leased execution: the work runs under a lease, its completion is a write of its own.
//!
//! [`RunsOn::run`] of [`Leased`] begins here, and [`Executor::execute`](crate::Executor::execute) claims and ends by
//! the same functions. Observed work, and work that fails open, is leased work whose [`Protection`] is another. This
//! file claims (its special cases are in [`claim_locally`](super::claim_locally), [`observed`](super::observed) and
//! [`without_claim`](super::without_claim)) and ends the claim.
//!
//! What must stay true:
//!
//! - A key that was acquired is granted, or given back, or left to its lease.
//! - What ran under a lease is completed or released once.
//! - Work whose effect has happened is completed, also if its output cannot be remembered.

use std::time::Duration;

use serde::Serialize;

use super::{
    Executor, Prepared, RunsOn,
    attempt::{Called, Claiming, Granted, Job, Uncalled, attempt, run_alone},
    guarded,
    heartbeat::{KeptLease, Moment, Ran},
    leased_claim::{LeasedClaim, Protection, release, write_until_known},
    remembered,
    verdict::{KeyEnd, NotRun, Objection, lease_lost, stopped, unsuccessful},
    without_claim::unclaimed,
};
use crate::{
    executor::{Cause, Execution},
    futures::FutureExt as _,
    handler::{
        Attempt, Context, Failure, Handler, Leased, Mode, Operation, Outcome, Policy, StoreOutage,
    },
    message::Envelope,
    store::{Claim, Lease, Release, Store, StoreError, Write},
    stores::measured::Measured,
};

impl<S: Store> RunsOn<S> for Leased {
    async fn run<H, St>(
        executor: &Executor<S>,
        message: &mut Prepared<H>,
        state: &St,
    ) -> Execution<H::Output, H::Error>
    where
        H: Handler<St, Mode = Self>,
        St: Send + Sync + 'static,
    {
        // Its `claim`, `call_handler` and `finish` are in `impl Claiming`, below.
        attempt::<LeasedClaim<S>, S, H, St>(executor, message, state, None).await
    }
}

impl<S, H> Claiming<S, H> for LeasedClaim<S>
where
    S: Store,
    H: Operation,
    H::Mode: CallsLeased<S>,
{
    // The handler writes where it likes, and borrows nothing.
    type Transaction = ();
    type Ended = Execution<H::Output, H::Error>;

    fn claim(
        job: &mut Job<'_, S>,
        _: &H::Message,
        _: &Envelope,
    ) -> impl Future<Output = Result<Granted<Self, ()>, Self::Ended>> {
        let requester = job.requester;
        job.claim_by_policy()
            .map(move |granted| granted.map_err(|not_run| not_run.into_execution(requester)))
    }

    fn describe_attempt(&self, policy: &Policy) -> Attempt {
        self.to_attempt(policy)
    }

    // A leased handler holds nothing of the store's that others need, so only its policy limits it.
    fn limit(_: &Measured<S>) -> Option<Duration> {
        None
    }

    fn lend((): &mut ()) {}

    fn call_handler<St>(
        &self,
        job: &Job<'_, S>,
        nothing: &mut (),
        body: H::Message,
        context: Context<'_, St>,
        kept: KeptLease,
    ) -> impl Future<Output = (KeptLease, Called<H>)> + Send
    where
        H: Handler<St>,
        St: Send + Sync + 'static,
    {
        // The mode decides: `Leased` calls `run_alone` (`attempt.rs`), `LeasedBatch` shares the call. The claim is
        // ended here in either case.
        <H::Mode as CallsLeased<S>>::call::<H, St>(self, job, nothing, body, context, kept)
    }

    async fn uncalled(
        self,
        job: &mut Job<'_, S>,
        (): (),
        kept: KeptLease,
        why: Uncalled,
    ) -> Self::Ended {
        // No heartbeat goes on beside the release: after it the store would refuse an extension as fenced.
        drop(kept);
        // Nothing ran, so it changes nothing for this message if the key was lost meanwhile.
        if let Some(release) = why.release() {
            self.give_back(job.executor, release).await;
        }
        why.into_execution()
    }

    async fn finish(
        self,
        job: &mut Job<'_, S>,
        (): (),
        kept: KeptLease,
        ran: Ran<Result<H::Output, H::Error>>,
    ) -> Self::Ended {
        // No heartbeat goes on beside the end: after it the store would refuse an extension as fenced. If the
        // write takes long because the store is away, the lease may run out; it can still be completed unless
        // somebody takes the key over.
        drop(kept);
        self.complete_or_release(job, ran).await
    }
}

/// How a leased mode calls its handler: with one message alone, unless the mode says otherwise.
/// [`LeasedBatch`](crate::handler::LeasedBatch) does. Claim and end are the same for both.
pub(super) trait CallsLeased<S: Store>: for<'l> Mode<Lent<'l> = ()> {
    /// See [`Claiming::call_handler`].
    fn call<H, St>(
        grant: &LeasedClaim<S>,
        job: &Job<'_, S>,
        nothing: &mut (),
        body: H::Message,
        context: Context<'_, St>,
        kept: KeptLease,
    ) -> impl Future<Output = (KeptLease, Called<H>)> + Send
    where
        H: Handler<St, Mode = Self>,
        St: Send + Sync + 'static,
    {
        let _ = grant;
        run_alone::<LeasedClaim<S>, S, H, St>(job, nothing, body, context, kept)
    }
}

impl<S: Store> CallsLeased<S> for Leased {}

impl<S: Store> Job<'_, S> {
    /// Claims as the policy says:
    ///
    /// | the policy | asks the store | runs |
    /// |---|---|---|
    /// | observes | yes, for a second | whatever the answer is |
    /// | is plain, or runs what has no key | no | always |
    /// | anything else | yes | if the key was acquired, or without the store if it fails open |
    ///
    /// A closed executor starts nothing, whatever the policy.
    pub(super) async fn claim_by_policy(&self) -> Result<Granted<LeasedClaim<S>, ()>, NotRun> {
        // First: a message that has no key is observed, too, and counted as one that would not have run.
        if self.policy.observes() {
            return self.observe().await;
        }
        if self.policy.is_plain() || self.keyless.is_some() {
            return self.grant_unclaimed();
        }
        self.claim_enforced().await
    }

    /// Claims for work that is enforced: from this process's memory what it knows and the store does not, everything
    /// else from the store. The local memory is looked at twice, before the store is asked and after it has answered.
    ///
    /// Dropped half way, it may leave a claim in the store; the same owner has it back when it asks again.
    pub(super) async fn claim_enforced(&self) -> Result<Granted<LeasedClaim<S>, ()>, NotRun> {
        // Before the store is asked: it has not been told yet what this process did with the key, and would let
        // a copy run again.
        if let Some(answer) = self.executor.local.look(self.request) {
            return self.claim_remembered(answer);
        }
        // (`grant_or_give_back` looks once more, for what is remembered while the store is asked.)
        //
        // Taken before the store is asked: the lease begins somewhere between here and the answer, and must not be
        // thought to end later than it does.
        let claimed = Moment::now();
        let (executor, fails_open) = (
            self.executor,
            self.policy.store_outage() == StoreOutage::FailOpen,
        );
        // With failing open, a store that is frozen counts as away. Otherwise the call takes as long as the store lets
        // it.
        let answer = if fails_open {
            executor.claim_while_it_answers(self.request).await
        } else {
            executor.store.claim(self.request).await
        };
        match answer {
            // The key is this message's. Its policy, or another copy in this process, may still speak against running.
            Ok(Claim::Acquired(lease)) => self.grant_or_give_back(lease, claimed).await,
            // Held, completed, or not to be run: nothing was claimed, and nothing is to be given back.
            Ok(answer) => Err(NotRun::Answered(answer)),
            // Only while the store is away. One that refuses, is full or has a record that cannot be read is
            // there, and nothing runs past it.
            Err(error @ StoreError::Unavailable(_)) if fails_open => self.claim_locally(error),
            Err(error) => Err(NotRun::Unavailable(error)),
        }
    }

    /// Grants a lease that the store has given, or gives it back if something speaks against running. Waits for that
    /// as long as the store is away.
    async fn grant_or_give_back(
        &self,
        lease: Lease,
        claimed: Moment,
    ) -> Result<Granted<LeasedClaim<S>, ()>, NotRun> {
        let executor = self.executor;
        // First marked here, then looked for in the local memory. `claim_locally` does the two in the other order, so
        // at least one of two copies sees the other, and they never both run.
        let working = executor.working(self.request);
        // Three things may come of it: another copy was faster, something speaks against running, or the lease is
        // granted.
        let (release, not_run) = if executor.local.remembers(&lease.key) {
            // While the store was asked, another copy began without it. This one steps back, and is no attempt.
            // `remaining` is a guess. The other copy runs in this process, and wakes this message when it has ended.
            let remaining = self.request.lease;
            let held = NotRun::Answered(Claim::Held { remaining });
            (Release::Abandoned, held)
        } else if let Some(objection) = self.objection(&lease) {
            (objection.release(), objection.into())
        } else {
            let protection = Protection::of_store(self);
            return Ok(self.granted(lease, claimed, Some(working), protection));
        };
        // Before the release, which takes as long as the store is away: whoever waits here for this key need not wait
        // that long to look again.
        drop(working);
        // Nothing ran: a lost lease changes nothing.
        let _ = executor.release(&lease, &release).await;
        Err(not_run)
    }

    /// Why a key that was just acquired is given back: leased work can be in doubt, because nothing has undone what an
    /// attempt did that vanished.
    pub(super) fn objection(&self, lease: &Lease) -> Option<Objection> {
        Objection::to(lease, self.policy, self.executor.is_closed(), true)
    }
}

impl<S: Store> LeasedClaim<S> {
    /// Ends the claim of work that was started: completes or releases the key, and says how the message ended.
    /// [`verdict`](super::verdict) decides what a failure means; what was decided is written by
    /// [`write_end`](Self::write_end).
    ///
    /// It returns when the end is recorded where the lease was given, or is known to be refused. Observed work
    /// waits a second at most.
    pub(super) async fn complete_or_release<T, E>(
        self,
        job: &mut Job<'_, S>,
        ran: Ran<Result<T, E>>,
    ) -> Execution<T, E>
    where
        T: Serialize + Send,
        E: Failure,
    {
        let (lease, policy) = (&self.lease, job.policy);
        // What has an end of its own is written at once; what has failed gives a cause, which is judged below.
        let attempt = lease.attempt;
        let cause = match ran {
            Ran::Returned(Ok(output)) => {
                // Not an error path: also an output that cannot be remembered is a success.
                let outcome = remember(&output, lease, policy);
                let key_end = KeyEnd::Completed(outcome.clone());
                let executed = Execution::Executed {
                    output,
                    outcome,
                    attempt,
                };
                return self.write_end(job, key_end, executed).await;
            }
            // A failure of the handler's own, or a panic: both are judged below.
            Ran::Returned(Err(error)) => guarded::cause(error),
            Ran::Panicked(message) => Cause::Panicked(message),
            // Apart from other failures: it was dropped in the middle, and a policy may call that a doubt.
            Ran::Overdue(limit) => {
                let (key_end, execution) = stopped(limit.into(), lease, policy, job.requester);
                return self.write_end(job, key_end, execution).await;
            }
            // Nothing is released: the key is another worker's now, who writes its end.
            Ran::LeaseLost => return lease_lost(lease),
        };
        let (key_end, execution) = unsuccessful(cause, lease, policy, job.requester);
        self.write_end(job, key_end, execution).await
    }

    /// Tells whoever gave the lease how the attempt ended. The result is `execution`, or what has to be said instead:
    /// the lease was lost, or the end is known to this process alone. `working` goes along with the write, so that
    /// copies in this process wait until it is made.
    async fn write_end<T: Send, E: Failure>(
        self,
        job: &mut Job<'_, S>,
        key_end: KeyEnd,
        execution: Execution<T, E>,
    ) -> Execution<T, E> {
        let Self {
            lease,
            working,
            protection,
        } = self;
        let (executor, retention) = (job.executor, job.request.retention);
        // Most often `Protection::Store`. Only whoever gave the lease is told: a local token means nothing to the
        // store, and the store's token nothing here.
        let written = match &protection {
            Protection::Store => {
                write_until_known(&executor.store, &lease, key_end, retention, working).await
            }
            Protection::OrLocal(store) => {
                // Boxed, here and below, because it is rare: the future of every other message is smaller without it.
                Box::pin(write_until_known(
                    store, &lease, key_end, retention, working,
                ))
                .await
            }
            // The watch is kept until the end is written: dropped before, it would report that the attempt vanished.
            Protection::Local(watch) => {
                Box::pin(write_until_known(
                    watch.local(),
                    &lease,
                    key_end,
                    retention,
                    working,
                ))
                .await
            }
            Protection::Observed(observed) => {
                // No answer of the store's changes how observed work ended.
                let written = observed.end_observed(job, lease, working, key_end, execution);
                return Box::pin(written).await;
            }
            Protection::Nobody => return unclaimed(execution, lease.attempt, job.history),
        };
        // What was written decides whether the message may say that it is done.
        match (written, protection) {
            // Whatever the handler returned: the completion had no effect, and must not be acknowledged.
            (Write::Fenced, _) => lease_lost(&lease),
            // It is done, but the store does not know it yet: that is not `Executed`, which promises a commit.
            (Write::Applied, Protection::Local(_)) => unprotected(execution),
            // The store was away, and the local memory has taken the end for it.
            (Write::Applied, Protection::OrLocal(store)) if store.has_handed_over() => {
                unprotected(execution)
            }
            (Write::Applied, _) => execution,
        }
    }
}

impl<S: Store> LeasedClaim<S> {
    /// Gives a key of which nothing ran back, to whoever gave the lease: as in [`write_end`](Self::write_end), and
    /// nobody else.
    async fn give_back(self, executor: &Executor<S>, reason: Release) {
        match &self.protection {
            Protection::Store | Protection::OrLocal(_) => {
                // By the store itself, also for `OrLocal`: nothing was done that this process would have to remember.
                let _ = executor.release(&self.lease, &reason).await;
            }
            Protection::Local(watch) => {
                let _ = release(&**watch.local(), &self.lease, &reason).await;
            }
            Protection::Observed(_) => self.give_back_observed(executor, reason).await,
            Protection::Nobody => {}
        }
    }
}

/// How a message ended whose end this process alone knows. Only a success is another kind: a failed attempt
/// comes again or is dead-lettered, whoever knows of it.
fn unprotected<T, E>(execution: Execution<T, E>) -> Execution<T, E> {
    execution.if_executed(|output, outcome, attempt| Execution::Unprotected {
        output,
        outcome,
        attempt,
    })
}

/// What is remembered of an output. The effect has happened, so an output that cannot be remembered is no reason to
/// repeat it: the key is completed, and copies are told that the output is not known.
fn remember(output: &impl Serialize, lease: &Lease, policy: &Policy) -> Outcome {
    remembered::output(output, policy).unwrap_or_else(|refusal| {
        tracing::error!(key = %lease.key, code = refusal.code(), error = %refusal, "done, but its output cannot be remembered: copies are told so");
        Outcome::forgotten(&refusal)
    })
}
