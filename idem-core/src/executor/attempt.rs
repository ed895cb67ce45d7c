//! One attempt at one message: claim, call the handler, run it under a heartbeat, finish.
//!
//! [`RunsOn::run`](super::RunsOn::run) of every mode comes here. What differs between the modes is a [`Claiming`]: how
//! the key is claimed, and how its claim ends. What an answer or a failure means is decided in
//! [`verdict`](super::verdict).

use std::{pin::pin, time::Duration};

use super::{
    Executor, Prepared, Requester, guarded,
    heartbeat::{KeptLease, Ran},
    history::History,
    unkept::refuse_unkept,
    verdict::Ended,
};
use crate::{
    executor::Execution,
    handler::{Attempt, Context, Handler, Mode, Operation, Policy},
    message::{Envelope, KeyError},
    store::{ClaimRequest, Store},
    stores::measured::Measured,
};

/// What is to be attempted.
pub(super) struct Job<'a, S> {
    pub(super) executor: &'a Executor<S>,
    pub(super) request: &'a mut ClaimRequest,
    pub(super) policy: &'a Policy,
    pub(super) requester: Requester,
    pub(super) history: &'a mut History,
    /// Why its key is one of its own, under which it is only observed.
    pub(super) keyless: Option<&'a KeyError>,
    /// The claim that it has already, under which nothing has run to its end.
    pub(super) held: Option<KeptLease>,
}

impl<'a, S: Store> Job<'a, S> {
    /// Work for which nobody waits, and of which nothing else is known. All that is claimed is a job first, and
    /// nothing is a job whose session or sequence the store does not keep.
    pub(super) fn of(
        executor: &'a Executor<S>,
        request: &'a mut ClaimRequest,
        policy: &'a Policy,
        history: &'a mut History,
    ) -> Result<Self, Ended> {
        refuse_unkept(&*executor.store, request).map_err(Ended::Unavailable)?;
        Ok(Self {
            executor,
            request,
            policy,
            requester: Requester::Nobody,
            history,
            keyless: None,
            held: None,
        })
    }
}

/// Leave to run.
pub(super) struct Begun<C, T> {
    pub(super) claim: C,
    /// What the handler writes through.
    pub(super) transaction: T,
    pub(super) kept: KeptLease,
}

/// How a mode claims a key, and how its claim ends.
pub(super) trait Claiming<S: Store, H: Operation>: Sized + Send {
    type Transaction: Send;

    /// What becomes of a message in this mode.
    type Ended: From<Execution<H::Output, H::Error>> + Send;

    /// Claims, and opens the transaction if the mode has one, unless something speaks against running.
    fn claim(
        job: &mut Job<'_, S>,
        body: &H::Message,
        envelope: &Envelope,
    ) -> impl Future<Output = Result<Begun<Self, Self::Transaction>, Self::Ended>> + Send;

    /// What the handler is told of the attempt.
    fn attempt(&self, policy: &Policy) -> Attempt;

    /// How long the handler may run.
    fn limit(store: &Measured<S>) -> Option<Duration>;

    fn lend(transaction: &mut Self::Transaction) -> <H::Mode as Mode>::Lent<'_>;

    /// Ends the claim of a handler that could not be called.
    fn uncalled(
        self,
        job: &mut Job<'_, S>,
        transaction: Self::Transaction,
        kept: KeptLease,
        error: String,
    ) -> impl Future<Output = Self::Ended> + Send;

    /// Ends the claim of a handler that was called.
    fn finish(
        self,
        job: &mut Job<'_, S>,
        transaction: Self::Transaction,
        kept: KeptLease,
        ran: Ran<Result<H::Output, H::Error>>,
    ) -> impl Future<Output = Self::Ended> + Send;
}

/// Attempts a message once.
pub(super) async fn attempt<C, S, H, St>(
    executor: &Executor<S>,
    message: &mut Prepared<H>,
    state: &St,
    held: Option<KeptLease>,
) -> C::Ended
where
    C: Claiming<S, H>,
    S: Store,
    H: Handler<St>,
    St: Send + Sync + 'static,
{
    let body = match message.take() {
        Ok(body) => body,
        Err(error) => return Execution::Undecodable { error }.into(),
    };
    let envelope = &message.envelope;
    let requester = Requester::of(envelope);
    let (request, history) = (&mut message.request, &mut message.history);
    let mut job = match Job::of(executor, request, &message.policy, history) {
        Ok(job) => Job {
            requester,
            keyless: message.keyless.as_ref(),
            held,
            ..job
        },
        Err(refused) => {
            // Nothing ran, as below.
            message.body = Some(body);
            return refused.into_execution(requester).into();
        }
    };
    let Begun {
        claim,
        mut transaction,
        mut kept,
    } = match C::claim(&mut job, &body, envelope).await {
        Ok(begun) => begun,
        Err(ended) => {
            // Nothing ran: the message may be handed over again.
            message.body = Some(body);
            return ended;
        }
    };
    let context = Context {
        state,
        envelope,
        key: &job.request.key,
        attempt: claim.attempt(job.policy),
    };
    let lent = C::lend(&mut transaction);
    let ran = match guarded::call::<H, St>(body, &context, lent, &executor.handlers) {
        Ok(work) => {
            let limit = C::limit(&executor.store);
            // Pinned, because whatever it is moved into has room for it twice.
            Ok(kept.run_within(limit, pin!(work)).await)
        }
        Err(error) => Err(error),
    };
    match ran {
        Ok(ran) => claim.finish(&mut job, transaction, kept, ran).await,
        Err(error) => claim.uncalled(&mut job, transaction, kept, error).await,
    }
}
