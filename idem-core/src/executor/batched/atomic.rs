//! Atomic batches: the messages share the call of the handler, its transaction, and the commit.
//!
//! [`attempt`](crate::executor::attempt) claims and ends each of them; what is not ended with the batch is ended as
//! [`atomic`](crate::executor::atomic) work.
//!
//! What must stay true: the handler's writes are committed only together with the completions of all members that it has
//! not failed; a member counts as executed only when the batch has committed; if that is not known, its claim tells.

use std::time::Duration;

use super::{
    super::{
        Executor, Prepared, RunsOn,
        atomic::{AtomicClaim, NO_OUTBOX, Shared, alone, shared_or_alone},
        attempt::{Called, Claiming, Granted, Job, Uncalled},
        heartbeat::{KeptLease, Moment, Ran},
        remembered,
    },
    Batching, Claimed, EndedTogether, Sharing, share,
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
        // Until the end: it counts among the others of whoever comes after it.
        let (_present, others) = executor.concurrency.enter(H::SCOPE);
        // Who is alone, or would be alone in its batch, need not claim before there is a transaction.
        if others > 0 && message.may_share() && message.request.position.is_none() {
            return shared_or_alone::<Member<Tx>, S, Tx, H, St>(executor, message, state).await;
        }
        alone::<S, Tx, H, St>(executor, message, state, None).await
    }
}

impl<S, Tx, H> Batching<S, H> for AtomicBatch<Tx>
where
    S: BatchStore<Tx>,
    Tx: Send + 'static,
    H: Operation<Mode = Self>,
{
    type Shared = S::Transaction;
    const LEAVES_DOUBT: bool = false;

    async fn open(executor: &Executor<S>) -> Result<S::Transaction, StoreError> {
        executor.store.open(store::Open::Batch).await
    }

    fn limit(store: &Measured<S>) -> Option<Duration> {
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
            // One that cannot be remembered is refused when its message runs by itself.
            Ok(output) => Some(Some(remembered::output(output, &claimed.policy).ok()?)),
            Err(_) => Some(None),
        });
        outcomes.collect()
    }

    async fn end(
        executor: &Executor<S>,
        transaction: S::Transaction,
        claims: &[&Claimed],
        outcomes: Vec<Option<Outcome>>,
    ) -> Result<Vec<Option<EndedTogether>>, String> {
        let outgoing: Vec<_> = claims
            .iter()
            .map(|it| executor.committed.ready(it.outgoing()))
            .collect();
        if outgoing.iter().any(|it| !it.is_empty()) && executor.store.outbox().is_none() {
            // Each is told when it runs by itself.
            executor.roll_back(transaction).await;
            return Err(NO_OUTBOX.into());
        }
        let members = claims.iter().zip(&outcomes).zip(&outgoing);
        let completions: Vec<_> = members
            .filter_map(|((claimed, outcome), outgoing)| {
                let outcome = outcome.as_ref()?;
                let completion = Completion::new(&claimed.lease, outcome, claimed.retention);
                Some(completion.publishing(outgoing))
            })
            .collect();
        let committed = if completions.is_empty() {
            // All were failed: nothing was to be written.
            executor.roll_back(transaction).await;
            Ok(())
        } else {
            let complete = Finish::CompleteAll(&completions);
            match executor.store.finish(transaction, complete).await {
                Ok(Finished::Committed) => {
                    drop(completions);
                    // What a member has published that was failed is not committed.
                    let members = outcomes.iter().zip(outgoing);
                    let of_completed = members.filter(|(outcome, _)| outcome.is_some());
                    let outgoing = of_completed.flat_map(|(_, outgoing)| outgoing).collect();
                    executor.committed.hand_on(outgoing);
                    Ok(())
                }
                // Because of one of them, and nobody can tell which.
                Ok(Finished::Refused { error }) => return Err(error),
                Ok(Finished::Fenced | Finished::RolledBack) => {
                    return Err("a lease of its messages is lost".into());
                }
                Ok(other) => Err(other.is_no_answer("a batch")),
                // Lost on the way: the claim of each tells what became of it.
                Err(error) => Err(error),
            }
        };
        let ended = outcomes.into_iter().map(|outcome| {
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

/// A claim that ends with those of others, if all goes well.
struct Member<Tx>(AtomicClaim<Tx>);

/// What a member writes through, or how that was ended.
enum Written<T> {
    /// Nothing yet, or nothing that is left.
    Nothing,
    /// Nobody else waited when it led: a transaction of its own.
    Own(T),
    /// With those of others.
    Ended(EndedTogether),
}

impl<S, Tx, H> Claiming<S, H> for Member<Tx>
where
    S: BatchStore<Tx>,
    Tx: Send + 'static,
    H: Operation<Mode = AtomicBatch<Tx>>,
{
    type Transaction = Written<S::Transaction>;
    type Ended = Shared<H::Output, H::Error>;

    fn claim(
        job: &mut Job<'_, S>,
        _: &H::Message,
        _: &Envelope,
    ) -> impl Future<Output = Result<Granted<Self, Self::Transaction>, Self::Ended>> {
        job.claim_for_batch::<H, Tx>()
    }

    fn describe_attempt(&self, policy: &Policy) -> Attempt {
        self.0.to_attempt(policy)
    }

    fn limit(store: &Measured<S>) -> Option<Duration> {
        store.time_limit()
    }

    fn lend(written: &mut Self::Transaction) -> <H::Mode as Mode>::Lent<'_> {
        match written {
            Written::Own(transaction) => S::lend(transaction),
            Written::Nothing | Written::Ended(_) => {
                unreachable!("it is called by itself only in a transaction of its own")
            }
        }
    }

    async fn run<St>(
        &self,
        job: &Job<'_, S>,
        written: &mut Self::Transaction,
        body: H::Message,
        context: Context<'_, St>,
        kept: KeptLease,
    ) -> (KeptLease, Called<H>)
    where
        H: Handler<St>,
        St: Send + Sync + 'static,
    {
        let lease = &self.0.lease;
        let batch = job.batch::<H>(lease).expect("others are granted nothing");
        let shared = share::<S, H, St>(job, lease, batch, body, &context, kept).await;
        match shared {
            Sharing::InBatch(shared) => {
                *written = shared.ended.map_or(Written::Nothing, Written::Ended);
                (shared.kept, shared.called)
            }
            Sharing::Alone(mut alone) => match alone.led.take() {
                Some((transaction, _permit)) => {
                    *written = Written::Own(transaction);
                    alone.run::<Self, S, St>(job, written, context).await
                }
                None => (alone.kept, Err(Uncalled::Apart)),
            },
        }
    }

    async fn uncalled(
        self,
        job: &mut Job<'_, S>,
        written: Self::Transaction,
        kept: KeptLease,
        why: Uncalled,
    ) -> Self::Ended {
        if let Written::Own(transaction) = written {
            job.executor.roll_back::<Tx>(transaction).await;
        }
        if let Uncalled::Apart = why {
            return Shared::Apart(Some(kept));
        }
        drop(kept);
        let lease = Some(&self.0.lease);
        job.executor.give_back_uncalled(lease, why).await.into()
    }

    async fn finish(
        self,
        job: &mut Job<'_, S>,
        written: Self::Transaction,
        kept: KeptLease,
        ran: Ran<Result<H::Output, H::Error>>,
    ) -> Self::Ended {
        let Self(open) = self;
        let EndedTogether { outcome, committed } = match written {
            Written::Own(transaction) => {
                let ended =
                    <AtomicClaim<Tx> as Claiming<S, H>>::finish(open, job, transaction, kept, ran);
                return ended.await.into();
            }
            Written::Nothing => {
                drop(kept);
                let ending = open.ending(job);
                let ended = match ran {
                    // The handler has failed this message, and written nothing for it.
                    Ran::Returned(Err(error)) => ending.failed(error).await,
                    _ => ending.lost(),
                };
                open.note(job, &ended);
                return ended.into();
            }
            Written::Ended(ended) => ended,
        };
        // Its completion, or what became of that, ends the lease.
        drop(kept);
        let Ran::Returned(Ok(output)) = ran else {
            unreachable!("only successes are ended together");
        };
        let attempt = open.lease.attempt;
        let ended = match committed {
            Ok(()) => Execution::Executed {
                output,
                outcome,
                attempt,
            },
            Err(error) => Box::pin(open.ending(job).ask_again(output, outcome, error)).await,
        };
        open.note(job, &ended);
        ended.into()
    }
}

impl<S: Store> Job<'_, S> {
    /// Claims before there is a transaction: many claims then share a statement.
    async fn claim_for_batch<H, Tx>(
        &mut self,
    ) -> Result<Granted<Member<Tx>, Written<S::Transaction>>, Shared<H::Output, H::Error>>
    where
        S: BatchStore<Tx>,
        H: Operation,
    {
        // Before the call: the lease is never thought to end later than it does.
        let claimed = Moment::now();
        let answer = self.executor.store.claim_for_batch(self.request).await;
        let (open, kept) = self.claimed_to_share(answer, claimed).await?;
        if self.batch::<H>(&open.lease).is_none() {
            return Err(Shared::Apart(Some(kept)));
        }
        Ok(Granted {
            claim: Member(open),
            transaction: Written::Nothing,
            kept,
        })
    }
}
