//! Leased batches: the messages share the call of the handler, and nothing else.
//!
//! [`attempt`](crate::executor::attempt) claims and ends each of them as [`leased`](crate::executor::leased) work. Claims and
//! completions that wait for the store share a statement there. What must stay true: each member ends its own claim; a call
//! that was dropped leaves its members in doubt.

use std::time::Duration;

use super::{
    super::{
        Executor, Prepared, RunsOn,
        attempt::{Called, Job, attempt, run_alone},
        heartbeat::KeptLease,
        leased::CallsLeased,
        leased_claim::LeasedClaim,
    },
    Batching, Claimed, EndedTogether, Sharing, share,
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
    type Shared = ();
    const LEAVES_DOUBT: bool = true;

    async fn open(_: &Executor<S>) -> Result<(), StoreError> {
        Ok(())
    }

    fn limit(_: &Measured<S>) -> Option<Duration> {
        None
    }

    fn lend((): &mut ()) {}

    fn outcomes(
        _: &[&Claimed],
        results: &[Result<H::Output, H::Error>],
    ) -> Option<Vec<Option<Outcome>>> {
        // Each ends its own claim.
        Some(results.iter().map(|_| None).collect())
    }

    async fn end(
        _: &Executor<S>,
        (): (),
        _: &[&Claimed],
        outcomes: Vec<Option<Outcome>>,
    ) -> Result<Vec<Option<EndedTogether>>, String> {
        Ok(outcomes.iter().map(|_| None).collect())
    }

    async fn undo(_: &Executor<S>, (): ()) {}
}

impl<S: Store> CallsLeased<S> for LeasedBatch {
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
            return run_alone::<LeasedClaim<S>, S, H, St>(job, nothing, body, context, kept).await;
        };
        match share::<S, H, St>(job, lease, batch, body, &context, kept).await {
            Sharing::InBatch(shared) => (shared.kept, shared.called),
            Sharing::Alone(mut alone) => {
                // Held until it is done.
                let _led = alone.led.take();
                alone
                    .run::<LeasedClaim<S>, S, St>(job, nothing, context)
                    .await
            }
        }
    }
}
