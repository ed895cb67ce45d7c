//! Grouped execution: the writes and completions of several messages commit together.
//!
//! It runs atomic handlers that allow their messages to share a transaction, when enough of them are under way.
//! [`attempt`](super::attempt) tells the story; this file decides who shares, and how a claim ends in a group. The
//! group itself is the store's: it lends its transaction to one slot after the other.
//!
//! What must stay true:
//!
//! - A message counts as executed in its group only when the group has committed.
//! - If that is not known, a claim tells, as for other [`atomic`](super::atomic) work.
//! - What fails, or may be what ends its process, runs by itself.
//! - What waits for its slot or its group keeps its lease, and takes its claim along when it is run by itself.
// docs/decisions/0021

use std::time::Duration;

use super::{
    Executor, Prepared, RunsOn, Sharing,
    atomic::{AtomicClaim, SharedEnd, alone, shared_or_alone},
    attempt::{Claiming, Granted, Job, Uncalled},
    heartbeat::{KeptLease, Moment, Ran},
    remembered,
    verdict::lease_lost,
};
use crate::{
    executor::Execution,
    handler::{Attempt, Failure, Grouped, Handler, Mode, Operation, Outcome, Outgoing, Policy},
    message::Envelope,
    store::{
        self, Completion, Finish, Finished, GroupStore, RecordedByError, Release, Store,
        StoreError, TransactionalStore as _, outbox::SharedOutbox,
    },
    stores::measured::Measured,
};

impl<S, Tx, const SIZE: usize> RunsOn<S> for Grouped<Tx, SIZE>
where
    S: GroupStore<Tx>,
    Tx: Send + 'static,
{
    fn outbox(executor: &Executor<S>) -> Option<SharedOutbox> {
        executor.store.outbox()
    }

    fn sharing<H: Operation<Mode = Self>>(executor: &Executor<S>) -> Option<Sharing> {
        // A worker's doctor asks for it, too: it compares it with how many handlers run at once.
        let sharing = Sharing {
            handler: H::SCOPE,
            size: SIZE,
            // 0 where the store's settings let no messages share a transaction: the isolation level, say.
            groups: executor.store.groups(),
        };
        (sharing.size > 1 && sharing.groups > 0).then_some(sharing)
    }

    async fn check<H: Operation<Mode = Self>>(
        executor: &Executor<S>,
    ) -> Result<(), RecordedByError> {
        if executor.store.groups() == 0 {
            // No error: each message has a transaction of its own then, which is slower and as safe.
            tracing::warn!(
                handler = H::SCOPE,
                "messages cannot share a transaction in this store: each has its own"
            );
        }
        Ok(())
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
        // Held to the end: this message counts among the others of whoever comes after it.
        let (_present, others) = executor.concurrency.enter(H::SCOPE);
        let sharing = <Self as RunsOn<S>>::sharing::<H>(executor);
        // A few are sooner done side by side, and with a round trip less.
        if sharing.is_some_and(|sharing| others >= sharing.groups) && message.may_share() {
            return shared_or_alone::<GroupClaim<Tx, SIZE>, S, Tx, H, St>(executor, message, state)
                .await;
        }
        alone::<S, Tx, H, St>(executor, message, state, None).await
    }
}

/// A claim that ends with those of others. Its transaction is a slot in the group's: a savepoint of its own.
struct GroupClaim<Tx, const SIZE: usize>(AtomicClaim<Tx>);

impl<S, Tx, H, const SIZE: usize> Claiming<S, H> for GroupClaim<Tx, SIZE>
where
    S: GroupStore<Tx>,
    Tx: Send + 'static,
    H: Operation,
    H::Mode: for<'l> Mode<Lent<'l> = &'l mut Tx>,
{
    type Transaction = S::Transaction;
    type Ended = SharedEnd<H::Output, H::Error>;

    fn claim(
        job: &mut Job<'_, S>,
        _: &H::Message,
        _: &Envelope,
    ) -> impl Future<Output = Result<Granted<Self, S::Transaction>, Self::Ended>> {
        job.join_group(H::SCOPE)
    }

    fn describe_attempt(&self, policy: &Policy) -> Attempt {
        self.0.to_attempt(policy)
    }

    // The same as alone: whoever takes longer keeps the whole group waiting, and is dropped.
    fn limit(store: &Measured<S>) -> Option<Duration> {
        store.time_limit()
    }

    fn lend(slot: &mut S::Transaction) -> &mut Tx {
        S::lend(slot)
    }

    async fn uncalled(
        self,
        _: &mut Job<'_, S>,
        slot: S::Transaction,
        kept: KeptLease,
        _: Uncalled,
    ) -> Self::Ended {
        // Nothing of it is in the group. By itself it is called again, and its end is written there. The slot first:
        // others wait for it.
        drop(slot);
        SharedEnd::Apart(Some(kept))
    }

    /// Leaves the slot if the handler has succeeded, and waits until the group has ended.
    ///
    /// A group settles successes only. Whatever else comes of a message (it fails, panics, is too slow, cannot be
    /// remembered, its group is rolled back) drops the slot, which undoes its writes, and runs it by itself; only that
    /// counts.
    async fn finish(
        self,
        job: &mut Job<'_, S>,
        slot: S::Transaction,
        mut kept: KeptLease,
        ran: Ran<Result<H::Output, H::Error>>,
    ) -> Self::Ended {
        // Kept to the end: its mark in this process is dropped when the message is done with here, or runs by itself.
        let Self(open) = self;
        let success = match success::<S, Tx, H>(job, ran) {
            Ok(success) => success,
            // Dropping the slot takes its writes out of the group. The key is another worker's.
            Err(NoSuccess::LeaseLost) => return lease_lost(&open.lease).into(),
            Err(NoSuccess::Apart) => {
                // Rolled back first, then run by itself.
                drop(slot);
                return SharedEnd::Apart(Some(kept));
            }
        };
        // Written by the group's commit, with those of the other members.
        let completion = Completion::new(&open.lease, &success.outcome, job.request.retention)
            .publishing(&success.outgoing);
        let end = leave(&job.executor.store, slot, completion, &mut kept).await;
        // The group was certainly rolled back: another member failed, or lost its lease. Nothing of this message is
        // done, so it runs by itself, as the same attempt.
        if let Ok(Finished::RolledBack) = end {
            return SharedEnd::Apart(Some(kept));
        }
        let ended = ended_with_group(&open, job, success, end).await;
        // Last: copies that are woken by this find in the store what they are told here.
        open.note(job, &ended);
        ended.into()
    }
}

/// What a handler has returned that stays in its group.
struct Success<T> {
    output: T,
    outcome: Outcome,
    outgoing: Vec<Outgoing>,
}

/// Why nothing of a message stays in its group.
enum NoSuccess {
    LeaseLost,
    /// It is run by itself.
    Apart,
}

/// What came of the handler, if it is a success: only that stays in the group.
fn success<S, Tx, H>(
    job: &Job<'_, S>,
    ran: Ran<Result<H::Output, H::Error>>,
) -> Result<Success<H::Output>, NoSuccess>
where
    S: GroupStore<Tx>,
    H: Operation,
{
    let output = match ran {
        Ran::Returned(Ok(output)) => output,
        Ran::LeaseLost => return Err(NoSuccess::LeaseLost),
        // Whether it is the message's own fault, or that of another in the same transaction, nobody can tell here:
        // an aborted transaction fails everybody's statements. Alone, it fails for itself.
        Ran::Returned(Err(_)) | Ran::Panicked(_) | Ran::Overdue(_) => return Err(NoSuccess::Apart),
    };
    // An output that cannot be remembered is found again when it runs by itself, and refused there.
    let Ok(outcome) = remembered::output(&output, job.policy) else {
        return Err(NoSuccess::Apart);
    };
    let outgoing = job.executor.committed.ready(job.outgoing());
    // Refused there, too.
    if !outgoing.is_empty() && job.executor.store.outbox().is_none() {
        return Err(NoSuccess::Apart);
    }
    Ok(Success {
        output,
        outcome,
        outgoing,
    })
}

/// Leaves the slot, and waits for the group, under the heartbeat.
async fn leave<S, Tx>(
    store: &Measured<S>,
    slot: S::Transaction,
    completion: Completion<'_>,
    kept: &mut KeptLease,
) -> Result<Finished, StoreError>
where
    S: GroupStore<Tx>,
{
    // Its slot is left when this is first polled. Others may still run in the group, so the wait may be long,
    // and the heartbeat goes on during it. Boxed, because it is polled again below.
    let mut left = Box::pin(store.finish(slot, Finish::Complete(completion)));
    match kept.run(&mut left).await {
        Ran::Returned(end) => end,
        // The heartbeat found that the lease is not the current one: it may have found the key completed, by
        // the very commit that is waited for. The group knows better.
        Ran::LeaseLost | Ran::Overdue(_) => left.await,
        // The store's code has panicked, perhaps after the commit. What became of it, a claim tells.
        Ran::Panicked(message) => Err(StoreError::unavailable(message)),
    }
}

/// What came of the group, and so of this message, unless all of it is rolled back.
async fn ended_with_group<S, Tx, T, E>(
    open: &AtomicClaim<Tx>,
    job: &Job<'_, S>,
    success: Success<T>,
    end: Result<Finished, StoreError>,
) -> Execution<T, E>
where
    S: GroupStore<Tx>,
    E: Failure,
{
    let Success {
        output,
        outcome,
        outgoing,
    } = success;
    match end {
        Ok(Finished::Committed) => {
            job.executor.committed.hand_on(outgoing);
            let attempt = open.lease.attempt;
            Execution::Executed {
                output,
                outcome,
                attempt,
            }
        }
        // Another member's handler has committed the transaction by itself: the writes are durable, and the
        // completion is not written, nor what was published. They are, now, unless somebody else has the key.
        Ok(Finished::WithoutCompletion) => {
            let finisher = open.finisher(job);
            Box::pin(finisher.complete_late(output, outcome, outgoing)).await
        }
        // An answer that fits no group is a bug of the store's. It says nothing, like an error.
        Ok(other) => {
            let error = other.is_no_answer("who left a group");
            Box::pin(open.finisher(job).ask_again(output, outcome, error)).await
        }
        // Lost on the way: a claim tells what became of this message, whatever became of the others.
        Err(error) => Box::pin(open.finisher(job).ask_again(output, outcome, error)).await,
    }
}

impl<S: Store> Job<'_, S> {
    /// Claims, and waits for a slot.
    ///
    /// The claim comes first: then many claims share a statement, and the slot is not kept waiting for one. The slot
    /// may be long in coming, so the heartbeat begins before it. Dropped half way, it leaves the claim to its lease.
    async fn join_group<Tx, T, E, const SIZE: usize>(
        &mut self,
        handler: &'static str,
    ) -> Result<Granted<GroupClaim<Tx, SIZE>, S::Transaction>, SharedEnd<T, E>>
    where
        S: GroupStore<Tx>,
    {
        let executor = self.executor;
        // Before the call: the lease is never thought to end later than it does.
        let claimed = Moment::now();
        let answer = executor.store.claim_for_group(self.request).await;
        let (open, mut kept) = self.claimed_to_share::<Tx, T, E>(answer, claimed).await?;
        let group = store::Open::Group {
            handler,
            size: SIZE,
        };
        // Under the heartbeat: groups end when their slowest member does, so a slot may be long in coming.
        let slot = match kept.run(executor.store.open(group)).await {
            Ran::Returned(Ok(slot)) => slot,
            // The claim stays, and nobody keeps it: the same owner has it back when the message is handled again.
            Ran::Returned(Err(error)) => {
                return Err(Execution::StoreUnavailable { error }.into());
            }
            // Nothing ran. The delivery comes again, and its claim tells whose the key is.
            Ran::LeaseLost => return Err(lease_lost(&open.lease).into()),
            // The store's code has panicked: perhaps it does not when the message is alone.
            Ran::Overdue(_) | Ran::Panicked(_) => return Err(SharedEnd::Apart(Some(kept))),
        };
        // Looked at again, because the wait may have been long.
        if executor.is_closed() {
            // The slot first: the rest of its group need not wait for the release.
            drop((slot, kept));
            // Nothing ran: a lost lease changes nothing.
            let _ = executor.release(&open.lease, &Release::Abandoned).await;
            return Err(Execution::Abandoned.into());
        }
        Ok(Granted {
            claim: GroupClaim(open),
            transaction: slot,
            kept,
        })
    }
}
