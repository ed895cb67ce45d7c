//! Atomic execution of a handler that owns its transaction while it runs.
//!
//! The transaction leaves its [`Place`] with the handler and comes back when the handler drops it. What must stay true:
//! nothing is committed or written about the key while somebody else can still write in the transaction.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::timeout};

use super::{
    super::{
        Executor, Prepared, RunsOn,
        attempt::{Claiming, Granted, Job, Uncalled, attempt},
        heartbeat::{KeptLease, Ran},
    },
    AtomicClaim,
};
use crate::{
    executor::{Cause, Execution},
    futures::FutureExt as _,
    handler::{AtomicOwned, Attempt, Handler, Lend, Mode, Operation, OwnedTransaction, Policy},
    message::Envelope,
    store::{TransactionalStore, outbox::SharedOutbox},
    stores::measured::Measured,
};

impl<S, Tx> RunsOn<S> for AtomicOwned<Tx>
where
    S: TransactionalStore<Tx>,
    Tx: Send + 'static,
{
    fn limit(executor: &Executor<S>) -> Option<usize> {
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
        attempt::<OwnedClaim<Tx>, S, H, St>(executor, message, state, None).await
    }
}

/// An atomic claim whose transaction can leave its place.
struct OwnedClaim<Tx>(AtomicClaim<Tx>);

/// Where a transaction is when no handler has it.
struct Place<T>(Arc<Slot<T>>);

struct Slot<T> {
    transaction: Mutex<Option<T>>,
    came_back: Notify,
}

impl<T> Place<T> {
    fn of(transaction: T) -> Self {
        Self(Arc::new(Slot {
            transaction: Mutex::new(Some(transaction)),
            came_back: Notify::new(),
        }))
    }

    fn take(&self) -> Option<T> {
        let transaction = self.0.transaction.lock();
        transaction.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The transaction, as soon as nobody else has it; `None` if that takes longer than this.
    async fn reclaim(self, patience: Duration) -> Option<T> {
        let back = async {
            loop {
                if let Some(transaction) = self.take() {
                    return transaction;
                }
                // One who comes back before this is waited for leaves a permit.
                self.0.came_back.notified().await;
            }
        };
        timeout(patience, back).await.ok()
    }
}

/// A transaction that is with the handler. Dropped, it is put back into its place; if nobody waits there any more, it is
/// rolled back.
struct Away<S: TransactionalStore<Tx>, Tx> {
    /// `None` only while it is dropped.
    transaction: Option<S::Transaction>,
    place: Arc<Slot<S::Transaction>>,
}

impl<S: TransactionalStore<Tx>, Tx> Lend<Tx> for Away<S, Tx> {
    fn lend(&mut self) -> &mut Tx {
        let transaction = self.transaction.as_mut();
        S::lend(transaction.expect("it is here until it is dropped"))
    }
}

impl<S: TransactionalStore<Tx>, Tx> Drop for Away<S, Tx> {
    fn drop(&mut self) {
        let place = self.place.transaction.lock();
        *place.unwrap_or_else(PoisonError::into_inner) = self.transaction.take();
        self.place.came_back.notify_one();
    }
}

impl<S, Tx, H> Claiming<S, H> for OwnedClaim<Tx>
where
    S: TransactionalStore<Tx>,
    Tx: Send + 'static,
    H: Operation,
    H::Mode: for<'l> Mode<Lent<'l> = OwnedTransaction<Tx>>,
{
    type Transaction = Place<S::Transaction>;
    type Ended = Execution<H::Output, H::Error>;

    fn claim(
        job: &mut Job<'_, S>,
        _: &H::Message,
        _: &Envelope,
    ) -> impl Future<Output = Result<Granted<Self, Self::Transaction>, Self::Ended>> {
        let requester = job.requester;
        job.begin_alone().map(move |begun| match begun {
            Ok(begun) => Ok(Granted {
                claim: Self(begun.claim),
                transaction: Place::of(begun.transaction),
                kept: begun.kept,
            }),
            Err(ended) => Err(ended.into_execution(requester)),
        })
    }

    fn describe_attempt(&self, policy: &Policy) -> Attempt {
        self.0.to_attempt(policy)
    }

    fn limit(store: &Measured<S>) -> Option<Duration> {
        store.time_limit()
    }

    fn lend(place: &mut Self::Transaction) -> OwnedTransaction<Tx> {
        OwnedTransaction::new(Away::<S, Tx> {
            transaction: place.take(),
            place: Arc::clone(&place.0),
        })
    }

    async fn uncalled(
        self,
        job: &mut Job<'_, S>,
        place: Self::Transaction,
        kept: KeptLease,
        why: Uncalled,
    ) -> Self::Ended {
        match place.reclaim(job.policy.lease()).await {
            Some(transaction) => self.0.end_uncalled(job, transaction, kept, why).await,
            None => self.never_back(job),
        }
    }

    async fn finish(
        self,
        job: &mut Job<'_, S>,
        place: Self::Transaction,
        kept: KeptLease,
        ran: Ran<Result<H::Output, H::Error>>,
    ) -> Self::Ended {
        // Nothing is to be written: whoever has the transaction may keep it.
        if matches!(ran, Ran::LeaseLost) {
            let ended = super::lease_lost(&self.0.lease);
            self.0.note(job, &ended);
            return ended;
        }
        match place.reclaim(job.policy.lease()).await {
            Some(transaction) => self.0.end(job, transaction, kept, ran).await,
            None => self.never_back(job),
        }
    }
}

impl<Tx> OwnedClaim<Tx> {
    /// Writes nothing: whoever has the transaction may still write in it, and in some stores it holds a lock on the key's
    /// record. It is rolled back when it is dropped, and the key is free when its lease has run out.
    fn never_back<S, T, E>(self, job: &mut Job<'_, S>) -> Execution<T, E> {
        let lease = &self.0.lease;
        tracing::error!(
            key = %lease.key,
            attempt = lease.attempt,
            "the handler has returned and its transaction is still in use, by a task or by the body of its answer: nothing is committed; drop it before the handler returns"
        );
        let ended = Execution::Failed {
            cause: Cause::Refused("its transaction was still in use when it had returned".into()),
            attempt: lease.attempt,
            retry_after: job.policy.lease(),
        };
        self.0.note(job, &ended);
        ended
    }
}
