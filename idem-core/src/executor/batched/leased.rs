//! Leased batches: the messages share the call of the handler, and nothing else.
//!
//! [`attempt`](crate::executor::attempt) claims and ends each of them as [`leased`](crate::executor::leased) work;
//! claims and completions that wait for the store share a statement there. This file says what a batch of such messages
//! is, and lets a message that has its claim join one.
//!
//! What must stay true:
//!
//! - Each member ends its own claim.
//! - A call that was dropped leaves its members in doubt.
//! - A message that runs alone keeps its permit to lead until its handler has returned.

use std::time::Duration;

use super::{
    super::{
        Executor, Prepared, RunsOn,
        attempt::{Called, Job, attempt, run_alone},
        heartbeat::KeptLease,
        leased::CallsLeased,
        leased_claim::LeasedClaim,
    },
    Batching, Claimed, EndedTogether, SharedCall, share,
};
use crate::{
    executor::Execution,
    handler::{Context, Handler, LeasedBatch, Operation, Outcome},
    store::{Store, StoreError},
    stores::measured::Measured,
};

impl<S: Store> RunsOn<S> for LeasedBatch {
    async fn run<H, St>(
        executor: &Executor<S>,
        message: &mut Prepared<H>,
        state: &St,
    ) -> Execution<H::Output, H::Error>
    where
        H: Handler<St, Mode = Self>,
        St: Send + Sync + 'static,
    {
        attempt::<LeasedClaim<S>, S, H, St>(executor, message, state, None).await
    }
}

impl<S: Store, H: Operation<Mode = Self>> Batching<S, H> for LeasedBatch {
    // There is no transaction: each member's effect is its own.
    type Shared = ();
    // Nothing undoes what the handler has done when its call is dropped, and nobody knows how far it came.
    const LEAVES_DOUBT: bool = true;

    // Nothing to wait for: a batch is what waits when its leader has gathered it.
    async fn open(_: &Executor<S>) -> Result<(), StoreError> {
        Ok(())
    }

    // The call keeps nothing of the store's open, so only the policy limits it.
    fn limit(_: &Measured<S>) -> Option<Duration> {
        None
    }

    fn lend((): &mut ()) {}

    fn outcomes(
        _: &[&Claimed],
        results: &[Result<H::Output, H::Error>],
    ) -> Option<Vec<Option<Outcome>>> {
        // None for each member, because each ends its own claim. So an output that cannot be remembered does not fail
        // the batch: its effect has happened, and the member is completed without it.
        Some(results.iter().map(|_| None).collect())
    }

    // Nothing is ended together, so each member is told only what the handler returned for it.
    async fn end(
        _: &Executor<S>,
        (): (),
        _: &[&Claimed],
        outcomes: Vec<Option<Outcome>>,
    ) -> Result<Vec<Option<EndedTogether>>, String> {
        Ok(outcomes.iter().map(|_| None).collect())
    }

    // Nothing can be undone: see `LEAVES_DOUBT`.
    async fn undo(_: &Executor<S>, (): ()) {}
}

impl<S: Store> CallsLeased<S> for LeasedBatch {
    /// Calls the handler for this message and others, or for it alone, and hands its heartbeat back: its claim is ended
    /// by [`attempt`], with the heartbeat still on.
    async fn call<H, St>(
        grant: &LeasedClaim<S>,
        job: &Job<'_, S>,
        nothing: &mut (),
        body: H::Message,
        context: Context<'_, St>,
        kept: KeptLease,
    ) -> (KeptLease, Called<H>)
    where
        H: Handler<St, Mode = Self>,
        St: Send + Sync + 'static,
    {
        let lease = &grant.lease;
        let Some(batch) = job.batch::<H>(lease) else {
            // It may not share (`Job::batch` says why), so it waits for nobody.
            return run_alone::<LeasedClaim<S>, S, H, St>(job, nothing, body, context, kept).await;
        };
        match share::<S, H, St>(job, lease, batch, body, &context, kept).await {
            // It ran with others, or the executor was closed before it did. `ended` is `None` in every leased batch.
            SharedCall::InBatch(shared) => (shared.kept, shared.called),
            SharedCall::Alone(mut alone) => {
                // It may have led and found nobody else. Then its permit is held until the handler has returned: given
                // back before, it would let a further call begin beside this one, and there would be more than
                // `AT_ONCE`.
                let led = alone.led.take();
                let run = Box::pin(alone.run::<LeasedClaim<S>, S, St>(job, nothing, context));
                match led {
                    Some(((), mut permit)) => permit.hold_for(job.policy.lease() / 2, run).await,
                    None => run.await,
                }
            }
        }
    }
}
