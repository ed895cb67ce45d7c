//! Atomic execution: the handler's writes and the completion commit together.
//!
//! It runs handlers that borrow a transaction of the store. [`attempt`](super::attempt) tells the story; this file
//! holds how its claim ends, `opening` how it comes to a claim and a transaction, `sharing` which messages may share
//! one. [`owned`] is for handlers that own theirs. [`grouped`](super::grouped) and [`batched`](super::batched) come
//! here with a message that is run by itself.
//!
//! What must stay true:
//!
//! - The handler's writes are committed only together with the completion, and only under the current lease.
//! - Whatever else becomes of the key is written after they were rolled back.
//! - A commit whose answer was lost is never repeated as a run before a claim has told what became of it.
//! - A transaction that was lost without the handler's fault is no attempt, and keeps the claim for the same owner.

use std::{marker::PhantomData, time::Duration};

use super::{
    Executor, Prepared, RunsOn,
    attempt::{Claiming, Granted, Job, Uncalled, attempt},
    guarded,
    heartbeat::{KeptLease, Ran},
    in_flight::Working,
    remembered,
    until_known::until_known,
    verdict::{KeyEnd, lease_lost, unrememberable, unsuccessful},
};
use crate::{
    executor::{Cause, Execution},
    futures::FutureExt as _,
    handler::{Atomic, Attempt, Failure, Handler, Mode, Operation, Outcome, Outgoing, Policy},
    message::Envelope,
    store::{
        Claim, Completion, Finish, Finished, GroupStore, Lease, Open, Release, Store, StoreError,
        TransactionalStore, Write, outbox::SharedOutbox,
    },
    stores::measured::Measured,
};

mod opening;
mod owned;
mod sharing;

pub(super) use sharing::{SharedEnd, shared_or_alone};

impl<S, Tx> RunsOn<S> for Atomic<Tx>
where
    S: TransactionalStore<Tx>,
    Tx: Send + 'static,
{
    fn limit(executor: &Executor<S>) -> Option<usize> {
        // Each handler has a connection to itself for as long as it runs: more messages at once would only wait for
        // one.
        Some(executor.store.transactions())
    }

    fn outbox(executor: &Executor<S>) -> Option<SharedOutbox> {
        executor.store.outbox()
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
        alone::<S, Tx, H, St>(executor, message, state, None).await
    }
}

/// Runs one message in a transaction of its own. `held` is the claim of a message that its group has left to itself.
pub(super) async fn alone<S, Tx, H, St>(
    executor: &Executor<S>,
    message: &mut Prepared<H>,
    state: &St,
    held: Option<KeptLease>,
) -> Execution<H::Output, H::Error>
where
    S: TransactionalStore<Tx>,
    Tx: Send + 'static,
    H: Handler<St>,
    H::Mode: for<'a> Mode<Lent<'a> = &'a mut Tx>,
    St: Send + Sync + 'static,
{
    attempt::<AtomicClaim<Tx>, S, H, St>(executor, message, state, held).await
}

/// A claim whose transaction is open, or is about to be. It ends by [`end_called`](Self::end_called) if its handler was
/// called, else by [`end_uncalled`](Self::end_uncalled); in a group or a batch by [`finisher`](Self::finisher).
pub(super) struct AtomicClaim<Tx> {
    /// The proof of the claim. Every write about the key carries it, so none has an effect under another worker's
    /// claim.
    pub(super) lease: Lease,
    /// Until this is dropped, the key is worked on in this process. It goes with the claim, so a copy that waits here
    /// is woken when the end is written, not before.
    pub(super) working: Working,
    /// What the handler borrows. It is lent by the transaction; the claim only remembers its type.
    lends: PhantomData<fn() -> Tx>,
}

impl<Tx> AtomicClaim<Tx> {
    /// A claim that the store has just given.
    pub(super) fn new(lease: Lease, working: Working) -> Self {
        Self {
            lease,
            working,
            lends: PhantomData,
        }
    }

    /// What the handler is told.
    pub(super) fn to_attempt(&self, policy: &Policy) -> Attempt {
        let attempt = self.lease.to_attempt(policy.max_attempts());
        // Whatever the record says: an earlier attempt that vanished was rolled back with its transaction.
        attempt.without_doubt()
    }

    /// How this claim is ended. The claim itself stays: its `working` must outlast the end.
    pub(super) fn finisher<'a, S>(&'a self, job: &'a Job<'a, S>) -> Finisher<'a, S> {
        Finisher {
            job,
            lease: &self.lease,
        }
    }

    /// Ends a claim whose handler was not called: rolls back, gives the key back, and says why.
    async fn end_uncalled<S, T, E>(
        self,
        job: &mut Job<'_, S>,
        transaction: S::Transaction,
        kept: KeptLease,
        why: Uncalled,
    ) -> Execution<T, E>
    where
        S: TransactionalStore<Tx>,
    {
        // No heartbeat goes on beside the release: after it the store would refuse an extension as fenced.
        drop(kept);
        // First: the transaction holds a lock on the key's record in some stores, and the release would wait for it.
        job.executor.roll_back(transaction).await;
        let lease = Some(&self.lease);
        job.executor.give_back_uncalled(lease, why).await
    }

    /// Ends a claim whose handler was called. In this order: the heartbeat ends, the end is written, and copies in this
    /// process are told.
    async fn end_called<S, T, E>(
        self,
        job: &mut Job<'_, S>,
        transaction: S::Transaction,
        kept: KeptLease,
        ran: Ran<Result<T, E>>,
    ) -> Execution<T, E>
    where
        S: TransactionalStore<Tx>,
        T: serde::Serialize,
        E: Failure,
    {
        // Before the commit, which ends the lease: a heartbeat beside it would find the key completed.
        drop(kept);
        let execution = self.finisher(job).write(transaction, ran).await;
        // Last: copies that are woken by this find in the store what they are told here.
        self.note(job, &execution);
        execution
    }

    /// Notes how it ended, and tells copies that wait here. By then the end is written: a copy that asks the store
    /// instead is told the same.
    pub(super) fn note<S, T, E>(self, job: &mut Job<'_, S>, execution: &Execution<T, E>) {
        self.working.tell_copies(execution, job.request.retention);
        // Losses of the transaction are no attempts. They are counted, because a handler that loses it each time would
        // run for ever.
        job.history.losses.count(execution);
    }
}

impl<S, Tx, H> Claiming<S, H> for AtomicClaim<Tx>
where
    S: TransactionalStore<Tx>,
    Tx: Send + 'static,
    H: Operation,
    H::Mode: for<'l> Mode<Lent<'l> = &'l mut Tx>,
{
    type Transaction = S::Transaction;
    type Ended = Execution<H::Output, H::Error>;

    fn claim(
        job: &mut Job<'_, S>,
        _: &H::Message,
        _: &Envelope,
    ) -> impl Future<Output = Result<Granted<Self, S::Transaction>, Self::Ended>> {
        let requester = job.requester;
        job.begin_alone()
            .map(move |granted| granted.map_err(|not_run| not_run.into_execution(requester)))
    }

    fn describe_attempt(&self, policy: &Policy) -> Attempt {
        self.to_attempt(policy)
    }

    fn limit(store: &Measured<S>) -> Option<Duration> {
        store.time_limit()
    }

    fn lend(transaction: &mut S::Transaction) -> &mut Tx {
        S::lend(transaction)
    }

    async fn uncalled(
        self,
        job: &mut Job<'_, S>,
        transaction: S::Transaction,
        kept: KeptLease,
        why: Uncalled,
    ) -> Self::Ended {
        self.end_uncalled(job, transaction, kept, why).await
    }

    async fn finish(
        self,
        job: &mut Job<'_, S>,
        transaction: S::Transaction,
        kept: KeptLease,
        ran: Ran<Result<H::Output, H::Error>>,
    ) -> Self::Ended {
        self.end_called(job, transaction, kept, ran).await
    }
}

/// What a handler is told that has published on a store without an outbox, and must not commit without it.
pub(super) const NO_OUTBOX: &str =
    "the store has no outbox: use PostgreSQL or SQLite, or leave the `Outbox` out";

/// How a claim ends. Each method writes an end and says what the message came to, or says that nobody knows.
///
/// | the handler | the transaction | the key | the message |
/// |---|---|---|---|
/// | succeeded | committed, with the completion | completed | executed |
/// | succeeded | its commit's answer was lost | a claim tells: [`ask_again`](Self::ask_again) | executed, lost, or asked again |
/// | failed | rolled back | released, or completed with a rejection | failed, rejected, exhausted, refused |
/// | failed because its connection broke | gone with it | kept for the same owner | asked again |
/// | lost its lease | dropped | another worker's | lost |
pub(super) struct Finisher<'a, S> {
    /// What was attempted: its request, its policy, and who waits for an answer.
    pub(super) job: &'a Job<'a, S>,
    /// The claim that ends.
    pub(super) lease: &'a Lease,
}

impl<S: Store> Finisher<'_, S> {
    /// Makes of what the handler's future came to an end of the claim.
    ///
    /// Dropped half way, it may have sent the commit. The next delivery's claim tells: the key is completed, or free
    /// when its lease has run out.
    async fn write<Tx, T, E>(
        &self,
        transaction: S::Transaction,
        ran: Ran<Result<T, E>>,
    ) -> Execution<T, E>
    where
        S: TransactionalStore<Tx>,
        T: serde::Serialize,
        E: Failure,
    {
        // What few messages come to is a future of its own, so that the others' are small.
        match ran {
            Ran::Returned(Ok(output)) => match remembered::output(&output, self.job.policy) {
                Ok(outcome) => self.commit(transaction, output, outcome).await,
                // Here the effect can still be undone, which leased work cannot: nothing is done whose output
                // nobody could be told.
                Err(refusal) => {
                    let ended =
                        unrememberable(refusal, self.lease, self.job.policy, self.job.requester);
                    Box::pin(self.undo(transaction, ended)).await
                }
            },
            Ran::Returned(Err(error)) => {
                Box::pin(self.fail(transaction, guarded::cause(error))).await
            }
            Ran::Panicked(message) => {
                Box::pin(self.fail(transaction, Cause::Panicked(message))).await
            }
            // Not by way of `fail`, which may find the connection broken and count no attempt: a handler that hangs on
            // it would hang again and again.
            Ran::Overdue(limit) => {
                let ended = self.unsuccessful(limit.into());
                Box::pin(self.undo(transaction, ended)).await
            }
            // The transaction is dropped at the end of this function, which rolls it back. Nothing is written: the key
            // is another worker's.
            Ran::LeaseLost => self.lost(),
        }
    }

    /// Commits the handler's writes with the completion.
    async fn commit<Tx, T, E>(
        &self,
        transaction: S::Transaction,
        output: T,
        outcome: Outcome,
    ) -> Execution<T, E>
    where
        S: TransactionalStore<Tx>,
        E: Failure,
    {
        let store = &self.job.executor.store;
        let mark = self.job.mark;
        let retention = self.job.request.retention;
        let attempt = self.lease.attempt;
        // What was published is written with the completion. A store without an outbox cannot do that, so nothing is
        // committed there.
        let outgoing = self.job.executor.committed.ready(self.job.outgoing());
        if !outgoing.is_empty() && store.outbox().is_none() {
            let ended = self.unsuccessful(Cause::Refused(NO_OUTBOX.to_owned()));
            return Box::pin(self.undo(transaction, ended)).await;
        }
        // One call: the completion is written in the transaction, fenced by the lease, and committed with it. So the
        // effect is never there without the completion, nor under a lease that is not the current one.
        let completion = Completion::new(self.lease, &outcome, retention)
            .publishing(&outgoing)
            .moving(mark);
        match store
            .finish(transaction, Finish::Complete(completion))
            .await
        {
            // The effect and its completion are there.
            Ok(Finished::Committed) => {
                // Only now: what was published must not be sent if its effect does not last.
                self.job.executor.committed.hand_on(outgoing);
                Execution::Executed {
                    output,
                    outcome,
                    attempt,
                }
            }
            // Rolled back with the completion: the lease was not the current one any more; or the stream has another
            // reader, or its mark was set. Then the key is this worker's still, and given back: whoever reads now need
            // not wait.
            Ok(Finished::Fenced) => {
                if mark.is_some() {
                    // Fenced, if it was the key that was lost.
                    let _ =
                        Box::pin(self.job.executor.release(self.lease, &Release::Abandoned)).await;
                }
                self.lost()
            }
            // Rolled back by the database: a deferred constraint, or a statement whose error the handler has
            // swallowed. Another attempt may do better.
            Ok(Finished::Refused { error }) => Box::pin(self.refused(error)).await,
            // An answer that fits no commit is a bug of the store's. It says nothing, like an error.
            Ok(other) => {
                let error = other.is_no_answer("a commit");
                Box::pin(self.ask_again(output, outcome, error)).await
            }
            Err(error) => Box::pin(self.ask_again(output, outcome, error)).await,
        }
    }

    /// Ends an attempt that failed of this, unless it failed because its connection broke. The handler's error does not
    /// tell the two apart, so the connection is asked.
    async fn fail<Tx, T, E>(
        &self,
        mut transaction: S::Transaction,
        cause: Cause<E>,
    ) -> Execution<T, E>
    where
        S: TransactionalStore<Tx>,
        E: Failure,
    {
        let store = &self.job.executor.store;
        // Asked only where the answer matters: it costs a round trip, and may roll back what was written.
        if self.job.history.losses.may_be_one(&cause) && !store.is_alive(&mut transaction).await {
            // The claim stays: the same owner has it back, as the same attempt, when the store is back.
            let error = StoreError::unavailable(cause.to_string());
            return Execution::StoreUnavailable { error };
        }
        self.undo(transaction, self.unsuccessful(cause)).await
    }

    /// Ends an attempt that has failed of this, and has written nothing: a member of a batch that the handler has
    /// failed by its place. So there is nothing to roll back.
    pub(super) async fn failed<T, E: Failure>(&self, error: E) -> Execution<T, E> {
        self.record(self.unsuccessful(guarded::cause(error))).await
    }

    /// Rolls the handler's writes back, and then records how it ended.
    async fn undo<Tx, T, E>(
        &self,
        transaction: S::Transaction,
        ended: (KeyEnd, Execution<T, E>),
    ) -> Execution<T, E>
    where
        S: TransactionalStore<Tx>,
    {
        // In this order: a write that came first would wait for the lock that this transaction holds.
        self.job.executor.roll_back(transaction).await;
        self.record(ended).await
    }

    /// The commit's answer was lost: the same owner's claim tells what became of it.
    ///
    /// It waits for as long as the store is away. The handler must not run again before that is known: if the commit
    /// was carried out, its effect has happened.
    pub(super) async fn ask_again<T, E: Failure>(
        &self,
        output: T,
        outcome: Outcome,
        error: StoreError,
    ) -> Execution<T, E> {
        let store = &self.job.executor.store;
        let claim = until_known("claim", &self.lease.key, || store.claim(self.job.request)).await;
        match claim {
            // By this commit, or by another worker's that has the same output: the token tells which.
            Claim::Completed { outcome: kept, .. } if kept == outcome => {
                self.whose(output, outcome).await
            }
            // Not committed, after several losses in a row: then the handler may be what breaks its connection.
            // Recorded as a failed attempt, it does not go on for ever.
            Claim::Acquired(_) if self.job.history.losses.are_its_own() => {
                self.refused(error.to_string()).await
            }
            // Not committed so far, by nobody's fault. The claim stays, for the same attempt; a commit that arrives
            // late fences the next one.
            Claim::Acquired(_) => Execution::StoreUnavailable { error },
            // Held by another worker, or completed by one with another output: this commit was fenced.
            _ => self.lost(),
        }
    }

    /// The key is completed: by this commit, or by a worker that took over after it had failed. Repeating the
    /// completion changes nothing, and is answered by the token: `Applied` if it was this one's.
    ///
    /// Also for writes that are durable without their completion: then this is the completion.
    pub(super) async fn whose<T, E>(&self, output: T, outcome: Outcome) -> Execution<T, E> {
        let (store, lease) = (&self.job.executor.store, self.lease);
        let retention = self.job.request.retention;
        let complete = || store.complete(lease, &outcome, retention);
        match until_known("complete", &lease.key, complete).await {
            Write::Applied => Execution::Executed {
                attempt: lease.attempt,
                output,
                outcome,
            },
            Write::Fenced => self.lost(),
        }
    }

    /// The handler's writes are durable without their completion, because another member of its group has committed:
    /// this writes the completion, with what was published. The effect has happened, so it is repeated until the store
    /// has answered.
    pub(super) async fn complete_late<Tx, T, E>(
        &self,
        output: T,
        outcome: Outcome,
        outgoing: Vec<Outgoing>,
    ) -> Execution<T, E>
    where
        S: GroupStore<Tx>,
    {
        if outgoing.is_empty() {
            return self.whose(output, outcome).await;
        }
        // In a transaction of its own: what was published must be in the outbox if the key is completed, and only then.
        let (store, lease) = (&self.job.executor.store, self.lease);
        let completion = Completion::new(lease, &outcome, self.job.request.retention);
        let complete = async || {
            let transaction = store.open(Open::Batch).await?;
            let complete = Finish::Complete(completion.publishing(&outgoing));
            match store.finish(transaction, complete).await? {
                Finished::Committed => Ok(Write::Applied),
                Finished::Fenced => Ok(Write::Fenced),
                // Not a failed attempt: a further one would do again what is done.
                Finished::Refused { error } => Err(StoreError::unavailable(error)),
                other => Err(other.is_no_answer("a completion")),
            }
        };
        let written = until_known("complete", &lease.key, complete).await;
        if written == Write::Applied {
            self.job.executor.committed.hand_on(outgoing);
        }
        // Fenced is also the second of two that were sent, if the answer to the first was lost: `whose` tells it from
        // another worker's. Then it is not handed on, and whoever takes from the outbox publishes it.
        self.whose(output, outcome).await
    }

    /// The database did not take the handler's writes: they are rolled back, so this is a failed attempt, and is only
    /// to be recorded.
    async fn refused<T, E: Failure>(&self, error: String) -> Execution<T, E> {
        self.record(self.unsuccessful(Cause::Refused(error))).await
    }

    /// What is written of an attempt that failed of this, and how its message ended.
    fn unsuccessful<T, E: Failure>(&self, cause: Cause<E>) -> (KeyEnd, Execution<T, E>) {
        unsuccessful(cause, self.lease, self.job.policy, self.job.requester)
    }

    /// Records how an attempt ended whose writes are rolled back. If this is dropped before the store has answered,
    /// nothing was done, and the attempt runs again. `ended` is the result only if the store has taken it: what failed
    /// here may succeed elsewhere.
    async fn record<T, E>(&self, (end, ended): (KeyEnd, Execution<T, E>)) -> Execution<T, E> {
        // The attempt was counted when it was claimed. This says what came of it, and frees the key.
        let (executor, retention) = (self.job.executor, self.job.request.retention);
        let written = executor
            .write_end_of_undone(self.lease, &end, retention)
            .await;
        // Fenced: the key is another worker's, or the completion whose answer was lost was carried out after all.
        let is_recorded = written == Write::Applied
            && match &end {
                KeyEnd::Released(_) => true,
                // A rejection that is remembered. `Applied` may also be the answer to a repeated completion, so what is
                // remembered is looked at.
                KeyEnd::Completed(outcome) => self.remembers(outcome).await,
            };
        if is_recorded { ended } else { self.lost() }
    }

    /// Whether this is what copies are told. A commit of the same lease whose answer never came may have been carried
    /// out late, and the first completion is the one that counts. Then the message is not rejected but done, and its
    /// next delivery is a duplicate.
    async fn remembers(&self, outcome: &Outcome) -> bool {
        let store = &self.job.executor.store;
        let claim = until_known("claim", &self.lease.key, || store.claim(self.job.request)).await;
        matches!(claim, Claim::Completed { outcome: kept, .. } if kept == *outcome)
    }

    /// Another worker has the key, or has had it.
    pub(super) fn lost<T, E>(&self) -> Execution<T, E> {
        lease_lost(self.lease)
    }
}
