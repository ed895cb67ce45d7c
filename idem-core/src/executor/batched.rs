//! Batches: several messages of a handler in one call of it.
//!
//! A message in a batch is [attempted](super::attempt) like any other; only its run is shared. [`share`] hands it over
//! to the messages that wait ([`queue`]), and one of those [leads](leading): it takes what waits, calls the handler,
//! and tells each how it ended. The modes are in [`leased`] and [`atomic`].
//!
//! What must stay true:
//!
//! - Only what was claimed is in a batch, so each key is in it once.
//! - A message is in one batch at a time, and its heartbeat goes along.
//! - Messages share a call only if it is the same call for each: the same state, the same timeout and leases of the same
//!   length.
//! - Whoever waits is told, also if the one that leads is dropped.
//! - If the call of a batch fails, its messages run again with fewer others, and by themselves in the end. Only that
//!   counts as an attempt.
// docs/decisions/0041

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt, ptr,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use super::{
    Executor,
    attempt::{Called, Claiming, Job, Uncalled, run_alone},
    guarded,
    heartbeat::KeptLease,
};
use crate::{
    handler::{
        BatchOptions, Context, Enforcement, Handler, InDoubt, Mode, Operation, Outcome, Policy,
        StoreOutage,
    },
    store::{Lease, Store, StoreError},
    stores::measured::Measured,
};

mod atomic;
mod leading;
mod leased;
mod queue;

use leading::Leader;
use queue::{Answer, BatchQueue, Claimed, Earlier, LeadPermit};

/// How many batches of one handler are under way at once, but for those whose call takes long: while one is completed,
/// the next one runs. With more of them, each batch would be smaller.
const AT_ONCE: usize = 2;

/// What waits for a batch in an executor: a queue for each call that messages may share. Clones share it.
///
/// The references are weak, so a queue is gone when nobody waits in it or leads. Its type is the handler's, and
/// forgotten here.
#[derive(Clone, Default)]
pub(super) struct BatchQueues(Arc<Mutex<HashMap<CallKey, Weak<dyn Any + Send + Sync>>>>);

/// What has to be the same for messages that share a call.
#[derive(PartialEq, Eq, Hash)]
struct CallKey {
    /// The handler whose messages these are.
    handler: TypeId,
    /// What its parameters are made from. The type stands beside the address, because a field may begin where the whole
    /// does.
    state: TypeId,
    /// Where the state is. Whoever waits borrows it, so nothing else is there meanwhile.
    state_at: usize,
    /// How long the call may take. It is dropped for all of them at the same time.
    timeout: Option<Duration>,
    /// How long their leases are. While the store is away they end together, and the call rests; otherwise some would
    /// hold long after the others, as if the store confirmed these.
    lease: Duration,
}

impl BatchQueues {
    /// Where messages of this handler wait that are called with this state, under this policy's limits.
    fn of<H: Operation, St: 'static>(&self, state: &St, policy: &Policy) -> Arc<BatchQueue<H>> {
        let key = CallKey {
            handler: TypeId::of::<H>(),
            state: TypeId::of::<St>(),
            // A state that has no size may be anywhere, and is the same everywhere.
            state_at: if size_of::<St>() == 0 {
                0
            } else {
                ptr::from_ref(state).addr()
            },
            timeout: policy.timeout(),
            lease: policy.lease(),
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = known.get(&key).and_then(Weak::upgrade) {
            let queue = queue.downcast();
            return queue.expect("it is kept under the handler's own type");
        }
        let queue = Arc::new(BatchQueue::<H>::default());
        // A queue is added, so it is time to forget those in which nobody waits any more, and which nobody leads.
        known.retain(|_, it| it.strong_count() > 0);
        known.insert(key, Arc::downgrade(&queue) as _);
        queue
    }
}

impl fmt::Debug for BatchQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchQueues").finish_non_exhaustive()
    }
}

/// A mode whose messages can share a call. The leader of a batch calls these in their order; the claims and their ends
/// are [`Claiming`]'s.
trait Batching<S: Store, H: Operation<Mode = Self>>: Mode {
    /// What the handler borrows from, once for all: a transaction, or nothing.
    type Shared: Send;

    /// Whether work that was dropped in the middle may have had an effect. Then whoever is called again is told so, and
    /// a lost lease ends the call for good.
    const LEAVES_DOUBT: bool;

    /// Opens what is shared. A batch is what waits when this is there.
    fn open(
        executor: &Executor<S>,
    ) -> impl Future<Output = Result<Self::Shared, StoreError>> + Send;

    /// How long the store lets the handler run.
    fn limit(store: &Measured<S>) -> Option<Duration>;

    /// What the handler gets as its connection or transaction.
    fn lend(shared: &mut Self::Shared) -> Self::Lent<'_>;

    /// What is remembered of each member when the batch ends, `None` for those that end by themselves. No list: there
    /// is a member that cannot end with the others, and the batch has failed.
    fn outcomes(
        claims: &[&Claimed],
        results: &[Result<H::Output, H::Error>],
    ) -> Option<Vec<Option<Outcome>>>;

    /// Ends what is shared after the handler has returned, and says for each member how its claim was ended.
    /// An error: nothing of it is done, and the batch has failed of that.
    fn end(
        executor: &Executor<S>,
        shared: Self::Shared,
        claims: &[&Claimed],
        outcomes: Vec<Option<Outcome>>,
    ) -> impl Future<Output = Result<Vec<Option<EndedTogether>>, String>> + Send;

    /// Undoes what the handler has written.
    fn undo(executor: &Executor<S>, shared: Self::Shared) -> impl Future<Output = ()> + Send;
}

/// How the claim of a member was ended together with those of the others.
pub(super) struct EndedTogether {
    /// What was sent as its completion.
    pub(super) outcome: Outcome,
    /// Whether it is committed. An error says nothing: the member's claim has to tell.
    pub(super) committed: Result<(), StoreError>,
}

/// What came of a message in a batch.
struct InBatch<H: Operation> {
    kept: KeptLease,
    /// What the call came to for this message, or why there was none.
    called: Called<H>,
    /// `None` if its claim is to be ended.
    ended: Option<EndedTogether>,
}

/// What came of a message that was to share a call: a batch has run it, or was to run it; or it is left to itself.
enum SharedCall<H: Operation, T> {
    InBatch(InBatch<H>),
    /// It has to be called by itself: nobody else was there, or calls with others have failed.
    Alone(Alone<H, T>),
}

/// A message that is called by itself.
struct Alone<H: Operation, T> {
    /// Its heartbeat, under which it runs.
    kept: KeptLease,
    /// `None` if a batch has used it up: it is decoded anew.
    message: Option<H::Message>,
    /// What those calls may have left.
    earlier: Earlier,
    /// If nobody else was there when it led: what was opened for the batch, and the permit, which goes to the
    /// next when this message is done.
    led: Option<(T, LeadPermit<H>)>,
}

impl<S: Store> Job<'_, S> {
    /// How large the batch may be that this message joins; `None` if it is to be called by itself.
    ///
    /// What was attempted before may be what ends its process, with all who are in a batch with it. A message with only
    /// one attempt would lose it then without having run by itself. What runs without the store's word, or must not run
    /// again when it is in doubt, is not to be called again because of others.
    fn batch<H: Operation>(&self, lease: &Lease) -> Option<BatchOptions> {
        let Self {
            policy, history, ..
        } = self;
        let joins = lease.attempt == 1
            && !lease.in_doubt
            && !history.attempted
            && history.losses.are_none()
            && policy.max_attempts() > 1
            && policy.in_doubt() == InDoubt::Retry
            && policy.store_outage() == StoreOutage::FailClosed
            && policy.enforcement() == Enforcement::Enforce
            && self.keyless.is_none()
            && self.request.position.is_none();
        H::BATCH.filter(|batch| joins && batch.most() > 1)
    }
}

/// Lets a message that has its claim wait for others, and share a call with them. It comes back with its heartbeat: as
/// one that a batch has run, as one that nothing is to be called for any more, or to be called by itself.
///
/// Dropped half way, it is in no batch any more. If it led one, that is dropped, and the others are called by
/// themselves.
async fn share<S, H, St>(
    job: &Job<'_, S>,
    lease: &Lease,
    batch: BatchOptions,
    message: H::Message,
    context: &Context<'_, St>,
    kept: KeptLease,
) -> SharedCall<H, <H::Mode as Batching<S, H>>::Shared>
where
    S: Store,
    H: Handler<St>,
    H::Mode: Batching<S, H>,
    St: Send + Sync + 'static,
{
    let executor = job.executor;
    // It lines up with those that may share its call.
    let queue = executor.batch_queues.of::<H, St>(context.state, job.policy);
    let claimed = Claimed {
        outbox: job.outbox.clone(),
        lease: lease.clone(),
        policy: *job.policy,
        retention: job.request.retention,
    };
    let mut waiter = queue.join(message, context, claimed, kept);
    // Then it waits: to be told what became of it, to be told to lead, or for the executor to be closed.
    let mut closing = Box::pin(executor.closed.closing());
    let mut is_closing = false;
    let mut led = None;
    let answer = loop {
        tokio::select! {
            // In this order. Whoever has been told is done, whatever else is ready. While it leads it looks at nothing
            // else: it is in the batch, so it is told by the time that it leads no more.
            biased;
            answer = &mut waiter.answer => break answer.expect("who waits is told, also by a drop"),
            permit = &mut waiter.permit, if !waiter.has_led => {
                waiter.has_led = true;
                if let Ok(permit) = permit {
                    let leader = Leader {
                        executor,
                        policy: job.policy,
                        state: context.state,
                    };
                    // Boxed, because one of many leads: the future of every other message is smaller without it.
                    led = Box::pin(leader.lead(permit, batch, waiter.number)).await;
                }
            }
            () = &mut closing, if !is_closing => {
                is_closing = true;
                // Only if it waits. What is in a batch runs to its end, or is told by its leader.
                if let Some(kept) = queue.leave(waiter.number) {
                    let called = Err(Uncalled::Closed);
                    return SharedCall::InBatch(InBatch { kept, called, ended: None });
                }
            }
        }
    };
    // What it was told. It is called by itself only if anything is called any more.
    match answer {
        Answer::Ran { kept, ran, ended } => SharedCall::InBatch(InBatch {
            kept,
            called: Ok(ran),
            ended,
        }),
        // Closed: what was opened for its batch is undone, and the key ends by what earlier calls may have left.
        Answer::Alone { kept, earlier, .. } if executor.is_closed() => {
            if let Some((shared, _permit)) = led {
                H::Mode::undo(executor, shared).await;
            }
            let called = match earlier {
                // No attempt: nothing of it has happened.
                Earlier::Nothing => Err(Uncalled::Closed),
                // A failed attempt: the call may have had effects.
                Earlier::Failed(error) => Err(Uncalled::ClosedAfter(error)),
                // Not a lost lease, which would be counted as one that another worker took.
                Earlier::Dropped => Err(Uncalled::ClosedAmid),
            };
            SharedCall::InBatch(InBatch {
                kept,
                called,
                ended: None,
            })
        }
        Answer::Alone {
            kept,
            message,
            earlier,
        } => SharedCall::Alone(Alone {
            kept,
            message,
            earlier,
            led,
        }),
    }
}

impl<H: Operation, T> Alone<H, T> {
    /// Calls the handler with this message, in a batch of one. Only this counts as its attempt: what calls with others
    /// came to is told to the handler as a doubt, and to nobody else.
    async fn run<C, S, St>(
        self,
        job: &Job<'_, S>,
        transaction: &mut C::Transaction,
        mut context: Context<'_, St>,
    ) -> (KeptLease, Called<H>)
    where
        C: Claiming<S, H>,
        S: Store,
        H: Handler<St>,
        St: Send + Sync + 'static,
    {
        let message = match self.message {
            Some(message) => Ok(message),
            None => guarded::decode::<H>(context.envelope),
        };
        if self.earlier.leaves_doubt() {
            context.attempt = context.attempt.in_doubt();
        }
        match message {
            Ok(message) => {
                run_alone::<C, S, H, St>(job, transaction, message, context, self.kept).await
            }
            // It could be decoded before: so its decoder does not give the same each time.
            Err(error) => (self.kept, Err(Uncalled::Unfit(error))),
        }
    }
}
