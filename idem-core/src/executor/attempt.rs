//! One attempt at one message: claim, call the handler, run it under a heartbeat, finish.
//!
//! [`RunsOn::run`](super::RunsOn::run) of every mode calls [`attempt`]. What differs between the modes is a
//! [`Claiming`]: how the key is claimed, and how its claim ends. What an answer or a failure means is decided in
//! [`verdict`](super::verdict).
//!
//! What must stay true:
//!
//! - No handler is called before its [`Claiming`] has granted it.
//! - The handler's future is dropped before its claim ends.
//! - Whatever was granted ends in exactly one of [`Claiming::finish`] and [`Claiming::uncalled`].
//! - A message of which nothing ran keeps its body, so that it can be handed over again.

use std::{pin::pin, sync::Arc, time::Duration};

use super::{
    Executor, Prepared, Requester, guarded,
    heartbeat::{KeptLease, Limit, Ran},
    history::History,
    prepared::MarkBefore,
    unsupported_position::refuse_unsupported_position,
    verdict::NotRun,
};
use crate::{
    executor::Execution,
    handler::{Attempt, Context, Handler, Mode, Operation, Outbox, Outgoing, Policy},
    message::{Envelope, KeyError},
    store::{ClaimRequest, MarkMove, Release, Store},
    stores::measured::Measured,
};

/// What is to be attempted: one message, or the work of one call of
/// [`Executor::execute`](crate::Executor::execute).
pub(super) struct Job<'a, S> {
    pub(super) executor: &'a Executor<S>,
    /// What is claimed. A mode may change it between two claims: a new owner, say.
    pub(super) request: &'a mut ClaimRequest,
    pub(super) policy: &'a Policy,
    /// Whether somebody waits for an answer: then a rejection is remembered like an output.
    pub(super) requester: Requester,
    pub(super) history: &'a mut History,
    /// Why the message has no usable key. It then runs under a random key that nobody else has, and only because its
    /// policy says so.
    pub(super) keyless: Option<&'a KeyError>,
    /// A claim that this message has already, with its heartbeat: its group did not succeed, and the message is run
    /// by itself.
    pub(super) held: Option<KeptLease>,
    /// What the handler publishes, if it does: it is committed with the claim's end.
    pub(super) outbox: Option<Outbox>,
    /// The mark that moves when the claim ends by a commit.
    pub(super) mark: Option<MarkMove<'a>>,
}

impl<'a, S: Store> Job<'a, S> {
    /// Work for which nobody waits, and of which nothing else is known.
    ///
    /// Every claim starts from a job, so this is the one place that refuses a request whose lease is too short, or
    /// whose session or sequence the store does not keep. Such a store would claim the request as if it stood alone.
    pub(super) fn of(
        executor: &'a Executor<S>,
        request: &'a mut ClaimRequest,
        policy: &'a Policy,
        history: &'a mut History,
    ) -> Result<Self, NotRun> {
        request
            .check_lease()
            .and_then(|()| refuse_unsupported_position(&*executor.store, request))
            .map_err(NotRun::Unavailable)?;
        Ok(Self {
            executor,
            request,
            policy,
            requester: Requester::Nobody,
            history,
            keyless: None,
            held: None,
            outbox: None,
            mark: None,
        })
    }
}

impl<S> Job<'_, S> {
    /// What the handler has published, to be committed.
    pub(super) fn outgoing(&self) -> Vec<Outgoing> {
        self.outbox.as_ref().map_or_else(Vec::new, Outbox::take)
    }
}

/// The permission to run the handler: its claim, and what goes with it.
pub(super) struct Granted<C, T> {
    pub(super) claim: C,
    /// What the handler writes through; `()` in a mode without a transaction.
    pub(super) transaction: T,
    /// The heartbeat of the claim's lease. Dropping it stops the heartbeat, and leaves the lease as it is.
    pub(super) kept: KeptLease,
}

/// How a mode claims a key, and how its claim ends. A value of the implementing type is one claim.
pub(super) trait Claiming<S: Store, H: Operation>: Sized + Send {
    /// What the handler borrows from while it runs: a transaction, a slot in a shared one, or nothing.
    type Transaction: Send;

    /// How an attempt ends in this mode. In most modes it is the [`Execution`]; in a group it may also be that the
    /// message is to be run by itself.
    type Ended: From<Execution<H::Output, H::Error>> + Send;

    /// Claims, and opens the transaction if the mode has one.
    ///
    /// `Err` says how the message ended without a run: its key is held or completed, the attempts are used up, the
    /// executor is closed. A claim that was made for it is given back by then, or is left to the same owner.
    fn claim(
        job: &mut Job<'_, S>,
        body: &H::Message,
        envelope: &Envelope,
    ) -> impl Future<Output = Result<Granted<Self, Self::Transaction>, Self::Ended>> + Send;

    /// What the handler is told of the attempt.
    fn describe_attempt(&self, policy: &Policy) -> Attempt;

    /// How long the store lets the handler run before it is dropped; `None` is for ever. The policy may allow less.
    fn limit(store: &Measured<S>) -> Option<Duration>;

    /// What the handler gets as its connection or transaction.
    fn lend(transaction: &mut Self::Transaction) -> <H::Mode as Mode>::Lent<'_>;

    /// Calls the handler and runs it under the heartbeat, which comes back.
    ///
    /// By default the message has the call to itself. The leased modes say so by `CallsLeased` (`leased.rs`): in a
    /// batch it shares a call.
    fn call_handler<St>(
        &self,
        job: &Job<'_, S>,
        transaction: &mut Self::Transaction,
        body: H::Message,
        context: Context<'_, St>,
        kept: KeptLease,
    ) -> impl Future<Output = (KeptLease, Called<H>)> + Send
    where
        H: Handler<St>,
        St: Send + Sync + 'static,
    {
        run_alone::<Self, S, H, St>(job, transaction, body, context, kept)
    }

    /// Ends the claim of a handler that was not called.
    fn uncalled(
        self,
        job: &mut Job<'_, S>,
        transaction: Self::Transaction,
        kept: KeptLease,
        why: Uncalled,
    ) -> impl Future<Output = Self::Ended> + Send;

    /// Ends the claim of a handler that was called, and says how the message ended. `ran` is what became of the
    /// handler's future, which is gone by now.
    fn finish(
        self,
        job: &mut Job<'_, S>,
        transaction: Self::Transaction,
        kept: KeptLease,
        ran: Ran<Result<H::Output, H::Error>>,
    ) -> impl Future<Output = Self::Ended> + Send;
}

/// What became of a handler that was to be called.
pub(super) type Called<H> =
    Result<Ran<Result<<H as Operation>::Output, <H as Operation>::Error>>, Uncalled>;

/// Why a handler was not called whose message had its claim.
#[derive(Debug)]
pub(super) enum Uncalled {
    /// One of its parameters could not be made.
    Unfit(String),
    /// The executor was closed while the message waited for its batch.
    Closed,
    /// The executor was closed when a call with this message and others had failed of this, after it may have had
    /// effects.
    ClosedAfter(Arc<str>),
    /// The executor was closed, and a call with this message and others was dropped in the middle: nobody knows what it
    /// did.
    ClosedAmid,
    /// It is to be called by itself, and not with others.
    Apart,
}

impl Uncalled {
    /// What becomes of the key; nothing if it is left to its lease, so that its next attempt is told of the doubt.
    pub(super) fn release(&self) -> Option<Release> {
        match self {
            // Given up, because the message is dead-lettered: a replay starts over.
            Self::Unfit(error) => Some(Release::gave_up(error)),
            Self::ClosedAfter(error) => Some(Release::failed(&**error)),
            Self::Closed | Self::Apart => Some(Release::Abandoned),
            Self::ClosedAmid => None,
        }
    }

    /// How the message ended.
    pub(super) fn into_execution<T, E>(self) -> Execution<T, E> {
        match self {
            Self::Unfit(error) => Execution::Undecodable { error },
            Self::Closed | Self::ClosedAfter(_) | Self::ClosedAmid | Self::Apart => {
                Execution::Abandoned
            }
        }
    }
}

/// Attempts a message once. `held` is a claim that the message has already, if it has one.
///
/// Dropped half way, it drops the handler's future, and tells the store nothing: the lease runs out, and a
/// transaction is rolled back. Two things outlive it: a completion that was started is repeated in the
/// background, and what ran without the store is reported as vanished.
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
    // `Prepared::new` has decoded it; only a further attempt decodes again here. Before the claim: what cannot be
    // decoded must not hold a key or count as an attempt.
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
            outbox: H::PUBLISHES.then(|| Outbox::for_key(&job.request.key)),
            keyless: message.keyless.as_ref(),
            held,
            mark: message.mark.as_ref().map(MarkBefore::to_move),
            ..job
        },
        Err(refused) => {
            // Nothing ran: the message may be handed over again, and needs its body then.
            message.body = Some(body);
            return refused.into_execution(requester).into();
        }
    };
    // The claim. Whatever it granted is ended below, by `finish` or `uncalled`; what it did not grant has nothing to be
    // ended.
    let Granted {
        claim,
        mut transaction,
        kept,
    } = match C::claim(&mut job, &body, envelope).await {
        Ok(granted) => granted,
        Err(not_run) => {
            // Nothing ran here either.
            message.body = Some(body);
            return not_run;
        }
    };
    let context = Context {
        state,
        envelope,
        key: &job.request.key,
        attempt: claim.describe_attempt(job.policy),
        outbox: job.outbox.clone(),
    };
    let (kept, called) = claim
        .call_handler(&job, &mut transaction, body, context, kept)
        .await;
    // The handler's future is gone, also one that lost its lease or took too long. So nothing of it still writes when
    // the key is completed, or is free for the next worker.
    match called {
        Ok(ran) => claim.finish(&mut job, transaction, kept, ran).await,
        Err(why) => claim.uncalled(&mut job, transaction, kept, why).await,
    }
}

/// Calls the handler with this message alone.
pub(super) async fn run_alone<C, S, H, St>(
    job: &Job<'_, S>,
    transaction: &mut C::Transaction,
    body: H::Message,
    mut context: Context<'_, St>,
    mut kept: KeptLease,
) -> (KeptLease, Called<H>)
where
    C: Claiming<S, H>,
    S: Store,
    H: Handler<St>,
    St: Send + Sync + 'static,
{
    let executor = job.executor;
    // An earlier call, in a batch, may have published and then failed.
    context.outbox = job.outbox.as_ref().map(Outbox::of_next_call);
    let lent = C::lend(transaction);
    // From here on a panic of the user's code is a value: it must not skip the end of the claim, which would
    // leave the key held until its lease runs out.
    let called = match guarded::call::<H, St>(body, &context, lent, &executor.handlers) {
        Ok(work) => {
            if H::BATCH.is_some() {
                executor.handlers.batch_called(H::SCOPE, 1);
            }
            let limit = Limit::shorter(job.policy.timeout(), C::limit(&executor.store));
            // Pinned here: an async function that takes the future by value has room for it twice.
            Ok(kept.run_within(limit, pin!(work)).await)
        }
        Err(error) => Err(Uncalled::Unfit(error)),
    };
    (kept, called)
}
