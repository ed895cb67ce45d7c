//! Atomic batches: the messages share the call of the handler, its transaction, and the commit.
//!
//! [`attempt`](crate::executor::attempt) claims and ends each of them. A member whose claim was not ended with the
//! batch is ended as [`atomic`](crate::executor::atomic) work, by itself.
//!
//! What must stay true:
//!
//! - The handler's writes are committed only together with the completions of all members that it has not failed.
//! - A member counts as executed only when the batch has committed.
//! - If that is not known, the claim of each member tells.
//! - A member that is left to itself takes its claim along, so that its key is never free in between.

use std::time::Duration;

use super::{
    super::{
        Executor, Prepared, RunsOn,
        atomic::{AtomicClaim, NO_OUTBOX, SharedEnd, alone, shared_or_alone},
        attempt::{Called, Claiming, Granted, Job, Uncalled},
        heartbeat::{KeptLease, Moment, Ran},
        remembered,
        stretch::{Moved, Stretch, move_mark},
    },
    Batching, Claimed, EndedTogether, SharedCall, share,
};
use crate::{
    executor::Execution,
    handler::{AtomicBatch, Attempt, Context, Handler, Mode, Operation, Outcome, Policy},
    message::Envelope,
    store::{
        self, BatchStore, Completion, Finish, Finished, Store, StoreError, TransactionalStore as _,
        outbox::SharedOutbox,
    },
    stores::measured::Measured,
};

impl<S, Tx> RunsOn<S> for AtomicBatch<Tx>
where
    S: BatchStore<Tx>,
    Tx: Send + 'static,
{
    const MOVES_MARKS: bool = S::MOVES_MARKS;

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
        move_mark::<S, Tx, H, St>(executor, stretch, policy, state)
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
        // Held to the end: this message counts among the others of whoever comes after it.
        let (_present, others) = executor.concurrency.enter(H::SCOPE);
        // Only with others there does it claim first and wait for them. One that is alone gains nothing by that, and
        // nor does one of a session or a sequence, which would be left out of every batch (`Job::batch`), or one that
        // moves the mark of its stream.
        let claims_a_place = !message.request.position.is_none();
        if others > 0 && message.may_share() && !claims_a_place && message.mark.is_none() {
            return shared_or_alone::<BatchClaim<Tx>, S, Tx, H, St>(executor, message, state).await;
        }
        // Boxed: the futures of messages that share a call, of which there are many at once, are smaller without it.
        Box::pin(alone::<S, Tx, H, St>(executor, message, state, None)).await
    }
}

impl<S, Tx, H> Batching<S, H> for AtomicBatch<Tx>
where
    S: BatchStore<Tx>,
    Tx: Send + 'static,
    H: Operation<Mode = Self>,
{
    // The transaction in which the handler writes for all members.
    type Shared = S::Transaction;
    // If the call is dropped, its transaction is rolled back, and nothing of any member has happened.
    const LEAVES_DOUBT: bool = false;

    async fn open(executor: &Executor<S>) -> Result<S::Transaction, StoreError> {
        // This waits for a connection. Messages that come meanwhile are in the batch, too.
        executor.store.open(store::Open::Batch).await
    }

    fn limit(store: &Measured<S>) -> Option<Duration> {
        // The store's limit is for the transaction, and so for the call of the whole batch.
        store.time_limit()
    }

    fn lend(transaction: &mut S::Transaction) -> &mut Tx {
        S::lend(transaction)
    }

    fn outcomes(
        claims: &[&Claimed],
        results: &[Result<H::Output, H::Error>],
    ) -> Option<Vec<Option<Outcome>>> {
        let members = claims.iter().zip(results);
        let outcomes = members.map(|(claimed, result)| match result {
            // One output that cannot be remembered fails the batch: its effect cannot be taken out of what the handler
            // wrote for all. When its message runs by itself, it is refused.
            Ok(output) => Some(Some(remembered::output(output, &claimed.policy).ok()?)),
            // The handler has failed this one by its place, and so has written nothing for it. It is left out of the
            // completions, and ends by itself.
            Err(_) => Some(None),
        });
        outcomes.collect()
    }

    /// Writes the completions and commits. A member whose `outcome` is `None` is not completed here.
    async fn end(
        executor: &Executor<S>,
        transaction: S::Transaction,
        claims: &[&Claimed],
        outcomes: Vec<Option<Outcome>>,
    ) -> Result<Vec<Option<EndedTogether>>, String> {
        // What each member has published: written with its completion, or not at all.
        let outgoing: Vec<_> = claims
            .iter()
            .map(|it| executor.committed.ready(it.outgoing()))
            .collect();
        if outgoing.iter().any(|it| !it.is_empty()) && executor.store.outbox().is_none() {
            // As a failed call: each member then runs by itself, and is told what is wrong if it publishes.
            executor.roll_back(transaction).await;
            return Err(NO_OUTBOX.into());
        }
        // One completion for each member that the handler has not failed.
        let members = claims.iter().zip(&outcomes).zip(&outgoing);
        let completions: Vec<_> = members
            .filter_map(|((claimed, outcome), outgoing)| {
                let outcome = outcome.as_ref()?;
                let completion = Completion::new(&claimed.lease, outcome, claimed.retention);
                Some(completion.publishing(outgoing))
            })
            .collect();
        let committed = if completions.is_empty() {
            // The handler has failed all of them: nothing is to be committed. Each is released by itself.
            executor.roll_back(transaction).await;
            Ok(())
        } else {
            let complete = Finish::CompleteAll(&completions);
            match executor.store.finish(transaction, complete).await {
                Ok(Finished::Committed) => {
                    // It borrows what is handed on below.
                    drop(completions);
                    // What a member has published that was failed is not committed.
                    let members = outcomes.iter().zip(outgoing);
                    let of_completed = members.filter(|(outcome, _)| outcome.is_some());
                    let outgoing = of_completed.flat_map(|(_, outgoing)| outgoing).collect();
                    executor.committed.hand_on(outgoing);
                    Ok(())
                }
                // A constraint, or the handler has ended the transaction: because of one member, and nobody can tell
                // which. Fewer are tried.
                Ok(Finished::Refused { error }) => return Err(error),
                // Nothing is committed. Whose lease it is does not matter here: halves leave the others in peace in the
                // end, and the claim of that member tells whose its key is.
                Ok(Finished::Fenced | Finished::RolledBack) => {
                    return Err("a lease of its messages is lost".into());
                }
                // An answer that fits no commit is a bug of the store's, and says nothing.
                Ok(other) => Err(other.is_no_answer("a batch")),
                // The answer was lost, so the batch may be committed: it must not be called again. The claim of each
                // member tells what became of it.
                Err(error) => Err(error),
            }
        };
        let ended = outcomes.into_iter().map(|outcome| {
            // An error cannot be cloned: each member gets one with the same text.
            let committed = match &committed {
                Ok(()) => Ok(()),
                Err(error) => Err(StoreError::unavailable(error.to_string())),
            };
            outcome.map(|outcome| EndedTogether { outcome, committed })
        });
        Ok(ended.collect())
    }

    async fn undo(executor: &Executor<S>, transaction: S::Transaction) {
        executor.roll_back(transaction).await;
    }
}

/// A claim that ends with those of others, if all goes well. It was made without a transaction, which the leader of its
/// batch opens.
struct BatchClaim<Tx>(AtomicClaim<Tx>);

/// What a member writes through, or how that was ended: [`Claiming::call_handler`] sets it, and [`Claiming::finish`]
/// ends the claim by it.
enum MemberTransaction<T> {
    /// There is no transaction yet, as after every claim. It stays so if the batch has committed nothing of this
    /// member: the handler has failed it, its lease was lost, or the executor was closed before its call.
    Nothing,
    /// Nobody else waited when it led, so it runs alone in the transaction that was opened for the batch.
    Own(T),
    /// Its completion was sent with those of others. Whether it is committed stands in there.
    Ended(EndedTogether),
}

impl<S, Tx, H> Claiming<S, H> for BatchClaim<Tx>
where
    S: BatchStore<Tx>,
    Tx: Send + 'static,
    H: Operation<Mode = AtomicBatch<Tx>>,
{
    type Transaction = MemberTransaction<S::Transaction>;
    // How it ended, or that it is to be run by itself with its claim.
    type Ended = SharedEnd<H::Output, H::Error>;

    fn claim(
        job: &mut Job<'_, S>,
        _: &H::Message,
        _: &Envelope,
    ) -> impl Future<Output = Result<Granted<Self, Self::Transaction>, Self::Ended>> {
        job.claim_for_batch::<H, Tx>()
    }

    fn describe_attempt(&self, policy: &Policy) -> Attempt {
        // Never in doubt, also after a batch that failed: what that wrote was rolled back.
        self.0.to_attempt(policy)
    }

    fn limit(store: &Measured<S>) -> Option<Duration> {
        store.time_limit()
    }

    fn lend(transaction: &mut Self::Transaction) -> <H::Mode as Mode>::Lent<'_> {
        // `run` comes here only by way of `Alone::run`, after it has put the transaction in.
        match transaction {
            MemberTransaction::Own(transaction) => S::lend(transaction),
            MemberTransaction::Nothing | MemberTransaction::Ended(_) => {
                unreachable!("it is called by itself only in a transaction of its own")
            }
        }
    }

    async fn call_handler<St>(
        &self,
        job: &Job<'_, S>,
        transaction: &mut Self::Transaction,
        body: H::Message,
        context: Context<'_, St>,
        kept: KeptLease,
    ) -> (KeptLease, Called<H>)
    where
        H: Handler<St>,
        St: Send + Sync + 'static,
    {
        // `claim_for_batch` leaves every message apart that may join no batch.
        let lease = &self.0.lease;
        let batch = job.batch::<H>(lease).expect("others are granted nothing");
        let shared = share::<S, H, St>(job, lease, batch, body, &context, kept).await;
        match shared {
            // Its claim was ended with the batch, or it is to be ended by `finish` or `uncalled`.
            SharedCall::InBatch(shared) => {
                *transaction = shared
                    .ended
                    .map_or(MemberTransaction::Nothing, MemberTransaction::Ended);
                (shared.kept, shared.called)
            }
            SharedCall::Alone(mut alone) => match alone.led.take() {
                Some((opened, mut permit)) => {
                    // It led and found nobody else. The permit is held until the handler has returned; the commit
                    // follows in `finish`, while the next batch may run.
                    *transaction = MemberTransaction::Own(opened);
                    let run = Box::pin(alone.run::<Self, S, St>(job, transaction, context));
                    permit.hold_for(job.policy.lease() / 2, run).await
                }
                // It has no transaction here, so it starts over by `atomic::alone`, which waits for one. Its body is
                // decoded anew. What earlier calls wrote for it is rolled back, so it is in no doubt.
                None => (alone.kept, Err(Uncalled::Apart)),
            },
        }
    }

    async fn uncalled(
        self,
        job: &mut Job<'_, S>,
        transaction: Self::Transaction,
        kept: KeptLease,
        why: Uncalled,
    ) -> Self::Ended {
        // First, so that nothing of this message holds a lock or a connection while its key is given back.
        if let MemberTransaction::Own(transaction) = transaction {
            job.executor.roll_back::<Tx>(transaction).await;
        }
        if let Uncalled::Apart = why {
            // The claim goes along under its heartbeat: `Job::begin_keeping` claims as the same owner.
            return SharedEnd::Apart(Some(kept));
        }
        // No heartbeat goes on beside the release: after it the store would refuse an extension as fenced.
        drop(kept);
        let lease = Some(&self.0.lease);
        job.executor.give_back_uncalled(lease, why).await.into()
    }

    async fn finish(
        self,
        job: &mut Job<'_, S>,
        transaction: Self::Transaction,
        kept: KeptLease,
        ran: Ran<Result<H::Output, H::Error>>,
    ) -> Self::Ended {
        // `run` has left in `transaction` how far the end has come. The claim is ended from there on, and its mark in
        // this process last.
        let Self(open) = self;
        let EndedTogether { outcome, committed } = match transaction {
            // Like any atomic message: it has run alone in a transaction of its own.
            MemberTransaction::Own(transaction) => {
                let ended =
                    <AtomicClaim<Tx> as Claiming<S, H>>::finish(open, job, transaction, kept, ran);
                // Boxed, because under load it is rare: the future of every other message is smaller without it.
                return Box::pin(ended).await.into();
            }
            MemberTransaction::Nothing => {
                // No heartbeat goes on beside the end: after it the store would refuse an extension as fenced.
                drop(kept);
                let finisher = open.finisher(job);
                let ended = match ran {
                    // The handler has failed it by its place, and its batch has ended without it. Now its key is
                    // released.
                    Ran::Returned(Err(error)) => finisher.failed(error).await,
                    // Its lease is lost. Nothing else comes here: a success is always ended with its batch, and a call
                    // that fails as a whole is made again.
                    _ => finisher.lost(),
                };
                open.note(job, &ended);
                return ended.into();
            }
            MemberTransaction::Ended(ended) => ended,
        };
        // The commit has ended the lease, or its answer was lost, and the claim below tells. A heartbeat would be
        // refused as fenced in the one case, and is not needed in the other.
        drop(kept);
        let Ran::Returned(Ok(output)) = ran else {
            unreachable!("only successes are ended together");
        };
        // From here on its completion was sent with those of others: it is done, or nobody knows.
        let attempt = open.lease.attempt;
        let ended = match committed {
            Ok(()) => Execution::Executed {
                output,
                outcome,
                attempt,
            },
            // Boxed, because it is rare: the future of every other message is smaller without it.
            Err(error) => Box::pin(open.finisher(job).ask_again(output, outcome, error)).await,
        };
        // Last: copies that are woken by this find in the store what they are told here.
        open.note(job, &ended);
        ended.into()
    }
}

impl<S: Store> Job<'_, S> {
    /// Claims before there is a transaction: many claims then share a statement. The heartbeat starts at once, because
    /// the wait for the others and for a connection may be longer than the lease.
    async fn claim_for_batch<H, Tx>(
        &mut self,
    ) -> Result<
        Granted<BatchClaim<Tx>, MemberTransaction<S::Transaction>>,
        SharedEnd<H::Output, H::Error>,
    >
    where
        S: BatchStore<Tx>,
        H: Operation,
    {
        // Before the call: the lease is never thought to end later than it does.
        let claimed = Moment::now();
        let answer = self.executor.store.claim_for_batch(self.request).await;
        // A last attempt, and one that has failed before, are sent away here: see `claimed_to_share`.
        let (open, kept) = self.claimed_to_share(answer, claimed).await?;
        if self.batch::<H>(&open.lease).is_none() {
            // It may share a transaction, but no call: by its policy, say. It keeps its claim, and runs by itself.
            return Err(SharedEnd::Apart(Some(kept)));
        }
        Ok(Granted {
            claim: BatchClaim(open),
            transaction: MemberTransaction::Nothing,
            kept,
        })
    }
}
