//! Leased batches: the messages share the call of the handler, and nothing else.
//!
//! [`attempt`](crate::executor::attempt) claims and ends each of them as [`leased`](crate::executor::leased) work. Claims and
//! completions that wait for the store share a statement there.

use std::time::Duration;

use super::{
    super::{
        Executor, Prepared, RunsOn,
        attempt::{Called, Claiming, Granted, Job, Uncalled, attempt, run_alone},
        grant::Grant,
        heartbeat::{KeptLease, Ran},
    },
    Batching, Claimed, EndedTogether, Sharing, share,
};
use crate::{
    executor::Execution,
    futures::FutureExt as _,
    handler::{Attempt, Context, Handler, LeasedBatch, Operation, Outcome, Policy},
    message::Envelope,
    store::{Store, StoreError},
    stores::measured::Measured,
};

impl<S: Store> RunsOn<S> for LeasedBatch {
    fn limit(_: &Executor<S>) -> Option<usize> {
        // Whoever waits for a batch has claimed, and keeps its lease.
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
        attempt::<Member<S>, S, H, St>(executor, message, state, None).await
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
    ) -> Option<Vec<Option<EndedTogether>>> {
        Some(outcomes.iter().map(|_| None).collect())
    }

    async fn undo(_: &Executor<S>, (): ()) {}
}

/// The claim of leased work that may share its call.
struct Member<S>(Grant<S>);

impl<S: Store, H: Operation<Mode = LeasedBatch>> Claiming<S, H> for Member<S> {
    type Transaction = ();
    type Attempted = Execution<H::Output, H::Error>;

    fn claim(
        job: &mut Job<'_, S>,
        body: &H::Message,
        envelope: &Envelope,
    ) -> impl Future<Output = Result<Granted<Self, ()>, Self::Attempted>> {
        <Grant<S> as Claiming<S, H>>::claim(job, body, envelope).map(|begun| {
            begun.map(|granted| Granted {
                claim: Self(granted.claim),
                transaction: (),
                kept: granted.kept,
            })
        })
    }

    fn attempt(&self, policy: &Policy) -> Attempt {
        self.0.describe_attempt(policy)
    }

    fn limit(_: &Measured<S>) -> Option<Duration> {
        None
    }

    fn lend((): &mut ()) {}

    async fn run<St>(
        &self,
        job: &Job<'_, S>,
        (): &mut (),
        body: H::Message,
        context: Context<'_, St>,
        kept: KeptLease,
    ) -> (KeptLease, Called<H>)
    where
        H: Handler<St>,
        St: Send + Sync + 'static,
    {
        let lease = &self.0.lease;
        let Some(batch) = job.batch::<H>(lease) else {
            return run_alone::<Self, S, H, St>(job, &mut (), body, context, kept).await;
        };
        match share::<S, H, St>(job, lease, batch, body, &context, kept).await {
            Sharing::InBatch(shared) => (shared.kept, shared.called),
            Sharing::Alone(mut alone) => {
                // Held until it is done.
                let _led = alone.led.take();
                alone.run::<Self, S, St>(job, &mut (), context).await
            }
        }
    }

    async fn uncalled(
        self,
        job: &mut Job<'_, S>,
        (): (),
        kept: KeptLease,
        why: Uncalled,
    ) -> Self::Attempted {
        <Grant<S> as Claiming<S, H>>::uncalled(self.0, job, (), kept, why).await
    }

    async fn finish(
        self,
        job: &mut Job<'_, S>,
        (): (),
        kept: KeptLease,
        ran: Ran<Result<H::Output, H::Error>>,
    ) -> Self::Attempted {
        <Grant<S> as Claiming<S, H>>::finish(self.0, job, (), kept, ran).await
    }
}
