//! Claim, run under a heartbeat, complete or release: one message from first to last.
//!
//! It owns what all messages of a process share: the store, the heartbeats, who works on which key. A transport calls
//! [`Executor::handle`] with each message, and what has no transport [`Executor::execute`]; the story of an attempt is
//! in `attempt`, what differs between the modes in their files. What must stay true: each call ends in exactly one
//! [`Execution`].

use std::{future::ready, pin::pin, sync::Arc, time::Duration};

use serde::Serialize;

use crate::{
    handler::{Failure, Handler, Operation, Policy},
    message::{Key, SequencePlace},
    store::{ClaimRequest, RecordedByError, Release, Store, outbox::SharedOutbox},
    stores::measured::Measured,
    telemetry::{Handlers, ReportCounts},
};

mod abandon;
mod atomic;
mod attempt;
mod batched;
mod claim_locally;
mod closed;
mod completion;
mod concurrency;
pub(crate) mod execution;
mod fail_open;
mod given_up_number;
mod grouped;
mod guarded;
mod heartbeat;
mod history;
mod in_flight;
mod lateness;
mod leased;
mod leased_claim;
mod observed;
mod outbox;
mod prepared;
mod recorded_by;
mod remembered;
mod sequence_waits;
mod stream_marks;
mod stretch;
mod unsupported_position;
mod until_known;
mod verdict;
mod without_claim;

#[cfg(test)]
mod tests;

use attempt::{Granted, Job};
use batched::BatchQueues;
use closed::Closed;
use concurrency::Concurrency;
#[doc(hidden)]
pub use concurrency::Sharing;
pub use execution::{Cause, Execution, ExecutionKind};
use fail_open::LocalMemory;
pub use fail_open::UnprotectedStats;
use given_up_number::GiveUpReason;
use heartbeat::{HeartbeatScheduler, Limit, Ran};
use history::History;
use in_flight::{InFlight, Working};
pub use lateness::Lateness;
use outbox::Committed;
pub use prepared::Prepared;
pub(crate) use remembered::Requester;
use sequence_waits::SequenceWaits;
pub use sequence_waits::{SequenceWait, Turn};
#[doc(hidden)]
pub use stream_marks::{Answer, AnyStreamStore, ClaimedStream, StreamMarks};
#[doc(hidden)]
pub use stretch::{Decoded, Moved, Stretch};
#[cfg(feature = "testing")]
pub(crate) use verdict::{NotRun, Objection, judge};

/// Runs work once per key.
///
/// Clones share the store. An executor serves any transport; `idem-amqp`'s worker is built on it.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use idem_core::{Executor, Failed, Key, MemoryStore, Policy, executor::ExecutionKind};
///
/// let executor = Executor::new(MemoryStore::new());
/// let key = Key::new("invoices.send", 1042_u64)?;
/// let sent = executor.execute(key, &Policy::DEFAULT, async |attempt| {
///     if attempt.number() > 3 {
///         return Err(Failed::rejected("nobody answers"));
///     }
///     Ok("sent")
/// });
/// assert_eq!(sent.await.kind(), ExecutionKind::Executed);
/// # Ok::<_, idem_core::message::KeyError>(()) }).unwrap();
/// ```
///
/// # Cancel safety
/// A dropped call leaves nothing that the lease does not heal: the handler's future is dropped
/// with it, and the key is free when the lease runs out (atomic handlers are rolled back). Two
/// things outlive the call. A completion whose answer was lost is repeated in the background until
/// the store has answered, because the work is done and must not run again. Reports of unprotected
/// work are repeated in the same way.
#[derive(Debug)]
pub struct Executor<S> {
    /// What claims and ends are told to. Each call is measured.
    store: Arc<Measured<S>>,
    /// Which keys are worked on here, to wake those who wait for them.
    in_flight: InFlight,
    /// What keeps the leases of all that runs.
    heartbeats: HeartbeatScheduler,
    /// How many messages of a handler are at it together.
    concurrency: Concurrency,
    /// What waits to share a call with others.
    batch_queues: BatchQueues,
    /// Where the sequences stand that this process works on.
    sequence_waits: SequenceWaits,
    /// Whether anything is still to be started.
    closed: Arc<Closed>,
    /// What was done while the store was away, where the policy is to fail open.
    local: Arc<LocalMemory>,
    /// Who publishes what handlers have published.
    committed: Committed,
    /// What is counted of each handler.
    handlers: Handlers,
}

impl<S> Clone for Executor<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            in_flight: self.in_flight.clone(),
            heartbeats: self.heartbeats.clone(),
            concurrency: self.concurrency.clone(),
            batch_queues: self.batch_queues.clone(),
            sequence_waits: self.sequence_waits.clone(),
            closed: Arc::clone(&self.closed),
            local: Arc::clone(&self.local),
            committed: self.committed.clone(),
            handlers: self.handlers.clone(),
        }
    }
}

impl<S: Store> Executor<S> {
    /// An executor on this store.
    pub fn new(store: S) -> Self {
        Self {
            store: Arc::new(Measured::new(store)),
            in_flight: InFlight::default(),
            heartbeats: HeartbeatScheduler::default(),
            concurrency: Concurrency::default(),
            batch_queues: BatchQueues::default(),
            sequence_waits: SequenceWaits::default(),
            closed: Arc::default(),
            local: Arc::new(LocalMemory::new(Self::DEFAULT_LOCAL_MEMORY)),
            committed: Committed::default(),
            handlers: Handlers::default(),
        }
    }

    /// The store.
    pub fn store(&self) -> &S {
        self.store.store()
    }

    /// Runs `work` unless it was done before or another worker is at it.
    ///
    /// The work is under a lease that a heartbeat extends; if the lease is lost, the work's
    /// future is dropped. Its output is remembered, as JSON, for the policy's retention.
    ///
    /// # Cancel safety
    /// That of the [executor](Self#cancel-safety).
    pub async fn execute<T, E, F, Fut>(&self, key: Key, policy: &Policy, work: F) -> Execution<T, E>
    where
        T: Serialize + Send,
        E: Failure,
        F: FnOnce(crate::handler::Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        self.execute_request(&ClaimRequest::new(key, policy), policy, work)
            .await
    }

    /// [`execute`](Self::execute), with the claim's fingerprint, owner and replay flag given.
    ///
    /// After [`Execution::StoreUnavailable`], ask again with the same request: the claim may have
    /// been recorded, and only the same owner gets it back at once.
    ///
    /// # Cancel safety
    /// That of the [executor](Self#cancel-safety).
    pub async fn execute_request<T, E, F, Fut>(
        &self,
        request: &ClaimRequest,
        policy: &Policy,
        work: F,
    ) -> Execution<T, E>
    where
        T: Serialize + Send,
        E: Failure,
        F: FnOnce(crate::handler::Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        let policy = &request.heeded_by(policy);
        let handler = request.key.scope();
        let (request, history) = (&mut request.clone(), &mut History::default());
        // The story of `attempt`, told once more for a closure. There is no message, so nobody waits for an answer, and
        // nothing can be decoded or handed over again.
        let mut job = match Job::of(self, request, policy, history) {
            Ok(job) => job,
            Err(refused) => return refused.into_execution(Requester::Nobody),
        };
        let Granted {
            claim, mut kept, ..
        } = match job.claim_by_policy().await {
            Ok(granted) => granted,
            Err(not_run) => return not_run.into_execution(Requester::Nobody),
        };
        let attempt = claim.to_attempt(policy);
        let (number, in_doubt) = (attempt.number(), attempt.is_in_doubt());
        // Called once, and run under the heartbeat. Guarded: a panic of the closure itself must not skip the end of the
        // claim either.
        let ran = match guarded::caught(|| work(attempt)) {
            Ok(work) => {
                let work = pin!(self.handlers.run(handler, number, in_doubt, work));
                let limit = Limit::shorter(policy.timeout(), None);
                kept.run_within(limit, work).await
            }
            Err(panic) => Ran::Panicked(panic),
        };
        // No heartbeat goes on beside the end: after it the store would refuse an extension as fenced.
        drop(kept);
        let execution = claim.complete_or_release(&mut job, ran).await;
        self.count_lost_lease(handler, &execution);
        execution
    }

    /// Runs a handler for a message, on the store that its mode needs.
    ///
    /// Messages share a [batch](crate::handler::Batch) if the same state is given for them: the same one, not one that
    /// is equal.
    ///
    /// # Cancel safety
    /// That of the [executor](Self#cancel-safety).
    pub async fn handle<H, St>(
        &self,
        message: &mut Prepared<H>,
        state: &St,
    ) -> Execution<H::Output, H::Error>
    where
        H: Handler<St>,
        H::Mode: RunsOn<S>,
        St: Send + Sync + 'static,
    {
        // Nothing of it can run: only its number is given up.
        if let Some(given_up) = message.given_up.clone() {
            let (request, policy) = (&mut message.request, &message.policy);
            return self.give_up(request, policy, given_up).await;
        }
        let execution = if let Some(answer) = message.answered.take() {
            // Another copy has completed the key while this one waited: neither the store nor the handler is asked.
            verdict::NotRun::Answered(answer).into_execution(Requester::of(&message.envelope))
        } else {
            // Before the claim: if it finds the key held, no end of the holder is missed between the store's answer and
            // the wait.
            message.watcher = Some(self.in_flight.watch(message.key()));
            <H::Mode as RunsOn<S>>::run(self, message, state).await
        };
        self.count_lost_lease(message.key().scope(), &execution);
        execution
    }

    /// Claims the message's number and gives it up, so that its sequence does not wait for it. No handler runs.
    async fn give_up<T, E>(
        &self,
        request: &mut ClaimRequest,
        policy: &Policy,
        why: GiveUpReason,
    ) -> Execution<T, E> {
        let mut history = History::default();
        let job = match Job::of(self, request, policy, &mut history) {
            Ok(job) => job,
            Err(refused) => return why.instead_of(refused),
        };
        match job.claim_enforced().await {
            Ok(granted) => {
                let reason = Release::gave_up(why.to_string());
                // Nothing ran: if the number was lost meanwhile, somebody else sees to it.
                let _ = self.release(&granted.claim.lease, &reason).await;
                // After the release: whoever is woken by this finds the number given up.
                drop(granted);
                why.execution()
            }
            Err(not_run) => why.instead_of(not_run),
        }
    }

    /// Looks whether the store can run this handler: for one that is
    /// [recorded in its own table](crate::handler::RecordedBy), whether the constraint will do. Worth doing
    /// before the first message; a worker does it by itself.
    ///
    /// # Errors
    /// See [`RecordedByError`].
    pub async fn check<H>(&self) -> Result<(), RecordedByError>
    where
        H: Operation,
        H::Mode: RunsOn<S>,
    {
        <H::Mode as RunsOn<S>>::check::<H>(self).await
    }

    /// Lets no further handler start: what is claimed is released again as abandoned.
    pub fn close(&self) {
        self.closed.close();
    }

    /// Registers the metrics of a handler before its first message. Without the feature `metrics` it
    /// does nothing, and nor does [`sample`](Self::sample).
    pub fn register_handler<H: Operation>(&self) {
        self.register_scope(H::SCOPE);
        if H::BATCH.is_some() {
            self.handlers.register_batches(H::SCOPE);
        }
    }

    /// The same for work that is no handler's, under this name.
    pub fn register_scope(&self, scope: &str) {
        self.handlers.register(scope);
    }

    /// From now on no message of this handler has a transaction to itself because it comes first: each shares one, if
    /// it may.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn crowd(&self, handler: &'static str) {
        self.concurrency.crowd(handler);
    }

    /// Brings those metrics up to date that change while nothing happens, such as the age of the
    /// oldest claim. A worker of `idem-amqp` does so every second.
    pub fn sample(&self) {
        let progress = |handler: &str| self.in_flight.progress(handler);
        let reports = self.unprotected();
        let reports = ReportCounts {
            told: reports.told(),
            overtaken: reports.overtaken(),
            pending: reports.pending(),
        };
        self.handlers.sample(progress, reports);
    }

    fn count_lost_lease<T, E>(&self, handler: &str, execution: &Execution<T, E>) {
        if matches!(execution, Execution::LeaseLost { .. }) {
            self.handlers.lease_lost(handler);
        }
    }

    /// Waits for the turn of a numbered message that is [ahead](Execution::Ahead) of this mark.
    pub fn wait_in_sequence(&self, place: &SequencePlace, mark: u64) -> SequenceWait {
        self.sequence_waits.wait(place, mark)
    }

    /// Returns the mark if a lower number of this sequence [waits](Self::wait_in_sequence) in this process. Then the
    /// store need not be asked: this number is ahead of the mark, too, and must wait.
    pub fn waiting_below(&self, place: &SequencePlace) -> Option<u64> {
        self.sequence_waits.behind(place)
    }

    /// Marks what was claimed as worked on here, until what this returns is dropped: the key, and the number if the
    /// message has one.
    fn working(&self, request: &ClaimRequest) -> Working {
        let place = request.position.sequence();
        let running = place.map(|place| self.sequence_waits.enter(place));
        self.in_flight
            .enter(&request.key, request.fingerprint)
            .in_sequence(running)
    }

    fn is_closed(&self) -> bool {
        self.closed.is_closed()
    }
}

/// A mode that can run on a store: [`Leased`](crate::handler::Leased) on any, [`Atomic`](crate::handler::Atomic) on
/// one whose transaction it can borrow, [`Grouped`](crate::handler::Grouped) on one that lends one to several.
pub trait RunsOn<S: Store>: crate::handler::Mode {
    /// How many handlers of this mode the store lets run at once, if it sets a limit. Who claims before it waits, and
    /// keeps its lease, needs none.
    fn limit(executor: &Executor<S>) -> Option<usize> {
        let _ = executor;
        None
    }

    /// How messages of this handler share transactions, if they do.
    #[doc(hidden)]
    fn sharing<H: Operation<Mode = Self>>(_: &Executor<S>) -> Option<Sharing> {
        None
    }

    /// Looks whether the store can do what handlers of this mode need.
    #[doc(hidden)]
    fn check<H: Operation<Mode = Self>>(
        executor: &Executor<S>,
    ) -> impl Future<Output = Result<(), RecordedByError>> + Send {
        let _ = executor;
        ready(Ok(()))
    }

    /// Whether handlers of this mode can move the mark of a stream in the transaction in which they write a batch.
    #[doc(hidden)]
    const MOVES_MARKS: bool = false;

    /// See [`Executor::move_mark`]. Asked only of modes that [move marks](Self::MOVES_MARKS).
    #[doc(hidden)]
    fn move_mark<H, St>(
        executor: &Executor<S>,
        stretch: Stretch<'_>,
        policy: &Policy,
        state: &St,
    ) -> impl Future<Output = Moved> + Send
    where
        H: Handler<St, Mode = Self>,
        St: Send + Sync + 'static,
    {
        let _ = (executor, stretch, policy, state);
        ready(Moved::Undone("this mode moves no marks".into()))
    }

    /// The store's outbox, if handlers of this mode can publish into it.
    #[doc(hidden)]
    fn outbox(_: &Executor<S>) -> Option<SharedOutbox> {
        None
    }

    /// Claims, runs and finishes one message.
    #[doc(hidden)]
    fn run<H, St>(
        executor: &Executor<S>,
        message: &mut Prepared<H>,
        state: &St,
    ) -> impl Future<Output = Execution<H::Output, H::Error>> + Send
    where
        H: Handler<St, Mode = Self>,
        St: Send + Sync + 'static;
}

/// How long to wait before the next attempt: what the failure asks for, or the policy's backoff,
/// but never longer than the retention.
fn retry_after(policy: &Policy, attempt: u32, asked: Option<Duration>) -> Duration {
    let wait = asked.unwrap_or_else(|| policy.backoff().wait(attempt));
    wait.min(policy.retention())
}
