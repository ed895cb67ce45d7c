//! Atomic messages that share a transaction with others, in a [group](super::super::grouped) or a
//! [batch](super::super::batched), which both call [`shared_or_alone`]: which of them may, how they claim, and how they
//! run by themselves if nothing came of it.
//!
//! What must stay true:
//!
//! - What may be what ends its process does not wait with others under a claim, and nor does a message with its last
//!   attempt: if the process ended meanwhile, it would be given up without having run.
//! - What is run by itself takes its claim along, so that its key is never free in between.

use super::{
    super::{
        Executor, Prepared,
        attempt::{Claiming, Job, attempt},
        heartbeat::{KeptLease, Moment},
    },
    AtomicClaim, alone,
};
use crate::{
    executor::Execution,
    handler::{Handler, Mode, Operation},
    store::{Claim, Lease, Owner, Release, Store, StoreError, TransactionalStore},
};

/// What becomes of a message that shares a transaction.
pub(in crate::executor) enum SharedEnd<T, E> {
    /// How the message ended, with others or before it could join them.
    Ended(Execution<T, E>),
    /// It did not succeed, or was not tried: it is run by itself. Its claim goes along with its heartbeat, and this is
    /// no further attempt. `None` if it has given its claim back.
    Apart(Option<KeptLease>),
}

impl<T, E> From<Execution<T, E>> for SharedEnd<T, E> {
    fn from(ended: Execution<T, E>) -> Self {
        Self::Ended(ended)
    }
}

/// Attempts a message together with others, and by itself if nothing came of that.
pub(in crate::executor) async fn shared_or_alone<C, S, Tx, H, St>(
    executor: &Executor<S>,
    message: &mut Prepared<H>,
    state: &St,
) -> Execution<H::Output, H::Error>
where
    C: Claiming<S, H, Ended = SharedEnd<H::Output, H::Error>>,
    S: TransactionalStore<Tx>,
    Tx: Send + 'static,
    H: Handler<St>,
    H::Mode: for<'a> Mode<Lent<'a> = &'a mut Tx>,
    St: Send + Sync + 'static,
{
    match attempt::<C, S, H, St>(executor, message, state, None).await {
        SharedEnd::Ended(ended) => ended,
        // Its history goes along in `message`, its claim in `held`. A body that was used up is decoded anew.
        // Boxed, because it is rare: the future of every other message is smaller without it.
        SharedEnd::Apart(held) => {
            Box::pin(alone::<S, Tx, H, St>(executor, message, state, held)).await
        }
    }
}

impl<H: Operation> Prepared<H> {
    /// Whether it may wait with others for a transaction. What was delivered before may be what ended its worker, and
    /// would do so to all who wait with it; so may what has lost a transaction.
    pub(in crate::executor) fn may_share(&self) -> bool {
        let history = &self.history;
        self.policy.max_attempts() > 1 && !history.attempted && history.losses.are_none()
    }
}

impl<S: Store> Job<'_, S> {
    /// Makes of the store's answer a claim, and keeps it, if the message may wait with it for a transaction that it
    /// shares. `claimed` is when the store was asked.
    pub(in crate::executor) async fn claimed_to_share<Tx, T, E>(
        &mut self,
        answer: Result<Claim, StoreError>,
        claimed: Moment,
    ) -> Result<(AtomicClaim<Tx>, KeptLease), SharedEnd<T, E>>
    where
        S: TransactionalStore<Tx>,
    {
        let executor = self.executor;
        let lease = match self.lease_of(answer).await {
            Ok(lease) => lease,
            Err(ended) => return Err(ended.into_execution(self.requester).into()),
        };
        // `lease_of` has given it back already if something speaks against running.
        if lease.attempt == self.policy.max_attempts() {
            self.give_back_last(&lease).await;
            return Err(SharedEnd::Apart(None));
        }
        // The heartbeat begins here: the wait may be longer than the lease.
        let kept = executor.keep::<Tx>(&lease, self.request, claimed);
        if lease.attempt > 1 {
            // It has failed before, so it may fail again, and would cost the others their transaction. The claim is its
            // own: it goes along.
            return Err(SharedEnd::Apart(Some(kept)));
        }
        let working = executor.working(self.request);
        Ok((AtomicClaim::new(lease, working), kept))
    }

    /// Gives the claim of a last attempt back, as no attempt. It must not be lost while it waits for a transaction, if
    /// the process ends: the message would be given up without having run. It is claimed when there is one.
    pub(super) async fn give_back_last(&mut self, lease: &Lease) {
        let _ = self.executor.release(lease, &Release::Abandoned).await;
        // An owner that has released never acquires again.
        self.request.owner = Owner::new();
    }
}
