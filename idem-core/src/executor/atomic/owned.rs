//! Atomic execution of a handler that owns its transaction while it runs: [`AtomicOwned`].
//!
//! [`attempt`] runs it like other [`atomic`](super) work; an HTTP layer is what needs it, because the service behind it
//! takes no borrowed values. The transaction leaves its [`Lender`] with the handler and comes back when that drops it.
//! Meanwhile anybody may have it: a task that the handler has started, or the body of its answer.
//!
//! What must stay true:
//!
//! - Nothing is committed or written about the key while somebody else can still write in the transaction.
//! - The heartbeat goes on while it is waited for.
//! - A transaction that nobody waits for any more is rolled back by its drop.

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
        // Each handler has a connection to itself for as long as it runs.
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

/// An atomic claim whose transaction a handler can take along. It begins and ends as any [`AtomicClaim`] does, once the
/// transaction is back.
struct OwnedClaim<Tx>(AtomicClaim<Tx>);

/// Has the transaction when no handler has it. The attempt keeps this; what is with the handler knows the same
/// [`TransactionSlot`].
struct Lender<T>(Arc<TransactionSlot<T>>);

/// What the attempt and the handler's transaction share. It is gone when both have let go of it, and a transaction that
/// is in it then is rolled back.
struct TransactionSlot<T> {
    /// `None` from when it is lent until it is dropped.
    transaction: Mutex<Option<T>>,
    /// Wakes the attempt, which alone waits for it.
    came_back: Notify,
}

impl<T> Lender<T> {
    /// Has this transaction.
    fn of(transaction: T) -> Self {
        Self(Arc::new(TransactionSlot {
            transaction: Mutex::new(Some(transaction)),
            came_back: Notify::new(),
        }))
    }

    /// The transaction, if nobody has it. The lock is held for this look only, never while the transaction is used.
    fn take(&self) -> Option<T> {
        let transaction = self.0.transaction.lock();
        transaction.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The transaction, as soon as nobody else has it; `None` if that takes longer than this. After that it is rolled
    /// back when it is dropped: the lender is gone, and nobody can reclaim it.
    async fn reclaim(self, patience: Duration) -> Option<T> {
        let back = async {
            loop {
                if let Some(transaction) = self.take() {
                    return transaction;
                }
                // A transaction that comes back between the look and this wait is not missed: it leaves a permit.
                self.0.came_back.notified().await;
            }
        };
        timeout(patience, back).await.ok()
    }
}

/// A transaction that is with the handler, or with whoever has it from the handler. Dropped, it goes back to the
/// [`Lender`]; if that is gone, it is rolled back.
struct Borrowed<S: TransactionalStore<Tx>, Tx> {
    /// `None` only while it is dropped.
    transaction: Option<S::Transaction>,
    /// Where it is put when it is dropped.
    shared: Arc<TransactionSlot<S::Transaction>>,
}

impl<S: TransactionalStore<Tx>, Tx> Lend<Tx> for Borrowed<S, Tx> {
    fn lend(&mut self) -> &mut Tx {
        let transaction = self.transaction.as_mut();
        S::lend(transaction.expect("it is here until it is dropped"))
    }
}

impl<S: TransactionalStore<Tx>, Tx> Drop for Borrowed<S, Tx> {
    fn drop(&mut self) {
        // First put back, then told: whoever is woken looks at once.
        let shared = self.shared.transaction.lock();
        *shared.unwrap_or_else(PoisonError::into_inner) = self.transaction.take();
        self.shared.came_back.notify_one();
    }
}

impl<S, Tx, H> Claiming<S, H> for OwnedClaim<Tx>
where
    S: TransactionalStore<Tx>,
    Tx: Send + 'static,
    H: Operation,
    H::Mode: for<'l> Mode<Lent<'l> = OwnedTransaction<Tx>>,
{
    // The lender, and not the transaction, which may be with the handler.
    type Transaction = Lender<S::Transaction>;
    type Ended = Execution<H::Output, H::Error>;

    fn claim(
        job: &mut Job<'_, S>,
        _: &H::Message,
        _: &Envelope,
    ) -> impl Future<Output = Result<Granted<Self, Self::Transaction>, Self::Ended>> {
        let requester = job.requester;
        // Begun as for a handler that borrows. The lender has the transaction before anybody else.
        job.begin_alone().map(move |begun| match begun {
            Ok(begun) => Ok(Granted {
                claim: Self(begun.claim),
                transaction: Lender::of(begun.transaction),
                kept: begun.kept,
            }),
            Err(ended) => Err(ended.into_execution(requester)),
        })
    }

    fn describe_attempt(&self, policy: &Policy) -> Attempt {
        self.0.to_attempt(policy)
    }

    fn limit(store: &Measured<S>) -> Option<Duration> {
        // For the handler. The wait for the transaction after that has a limit of its own, the lease.
        store.time_limit()
    }

    /// The transaction as a value, which goes back to the lender by itself when it is dropped.
    fn lend(lender: &mut Self::Transaction) -> OwnedTransaction<Tx> {
        // An attempt lends once, so it is there. It does not borrow from `lender`, which stays with the attempt.
        OwnedTransaction::new(Borrowed::<S, Tx> {
            transaction: lender.take(),
            shared: Arc::clone(&lender.0),
        })
    }

    async fn uncalled(
        self,
        job: &mut Job<'_, S>,
        lender: Self::Transaction,
        kept: KeptLease,
        why: Uncalled,
    ) -> Self::Ended {
        // It was lent before the parameters were made, so one of these may have it. The wait is under the heartbeat, in
        // `kept`: without it another worker could begin beside whoever writes there.
        match lender.reclaim(job.policy.lease()).await {
            Some(transaction) => self.0.end_uncalled(job, transaction, kept, why).await,
            None => self.never_back(job),
        }
    }

    async fn finish(
        self,
        job: &mut Job<'_, S>,
        lender: Self::Transaction,
        kept: KeptLease,
        ran: Ran<Result<H::Output, H::Error>>,
    ) -> Self::Ended {
        // Not waited for: nothing is to be written, neither in it nor about the key, which is another worker's now. It
        // is rolled back when it is dropped.
        if matches!(ran, Ran::LeaseLost) {
            let ended = super::lease_lost(&self.0.lease);
            self.0.note(job, &ended);
            return ended;
        }
        // The handler has returned, but what it has handed on may still be in use: that is waited for, for a lease,
        // with the heartbeat on.
        match lender.reclaim(job.policy.lease()).await {
            Some(transaction) => self.0.end_called(job, transaction, kept, ran).await,
            None => self.never_back(job),
        }
    }
}

impl<Tx> OwnedClaim<Tx> {
    /// Ends the attempt without a word to the store. Whoever has the transaction may still write in it, and in some
    /// stores it holds a lock on the key's record, for which a release would wait. It is rolled back when it is
    /// dropped, and the key is free when its lease has run out.
    ///
    /// The attempt counts all the same: it was counted when it was claimed.
    fn never_back<S, T, E>(self, job: &mut Job<'_, S>) -> Execution<T, E> {
        let lease = &self.0.lease;
        tracing::error!(
            key = %lease.key,
            attempt = lease.attempt,
            "the handler has returned and its transaction is still in use, by a task or by the body of its answer: nothing is committed; drop it before the handler returns"
        );
        // Not released and not completed: the claim is left to its lease. This process looks after it no longer.
        let ended = Execution::Failed {
            cause: Cause::Refused("its transaction was still in use when it had returned".into()),
            attempt: lease.attempt,
            // Not sooner: until then the key is held by a lease that nobody has released.
            retry_after: job.policy.lease(),
        };
        // No loss of the transaction: the handler had it to the end.
        self.0.note(job, &ended);
        ended
    }
}
