//! A slot in a group: the transaction, until it is left or dropped.

use std::time::Duration;

use sqlx::PgTransaction;
use tokio::sync::oneshot;

use crate::{
    handler::{Outcome, Outgoing},
    store::{Completion, Finished, Lease, StoreError},
    stores::postgres::atomic::PooledTransaction,
};

/// A place in a group. Dropped, what was written since it was taken is rolled back.
#[derive(Debug)]
pub(in crate::stores::postgres) struct Slot(Option<Taken>);

#[derive(Debug)]
struct Taken {
    open: PooledTransaction,
    back: oneshot::Sender<GivenBack>,
}

/// What comes back from a slot.
#[derive(Debug)]
pub(super) enum GivenBack {
    Left(PooledTransaction, GroupMember),
    Dropped(PooledTransaction),
}

/// One whose handler has succeeded.
#[derive(Debug)]
pub(super) struct GroupMember {
    pub(super) lease: Lease,
    pub(super) outcome: Outcome,
    pub(super) retention: Duration,
    outgoing: Vec<Outgoing>,
    end: oneshot::Sender<Result<Finished, StoreError>>,
}

impl Slot {
    pub(super) fn new(open: PooledTransaction) -> (Self, oneshot::Receiver<GivenBack>) {
        let (back, taken) = oneshot::channel();
        (Self(Some(Taken { open, back })), taken)
    }

    pub(in crate::stores::postgres) fn transaction(&mut self) -> &mut PgTransaction<'static> {
        let taken = self.0.as_mut().expect("a slot is taken until it is left");
        taken.open.transaction()
    }

    /// Takes the transaction out of a slot that nobody has taken.
    pub(super) fn clear(mut self) -> Option<PooledTransaction> {
        self.0.take().map(|taken| taken.open)
    }

    /// Leaves it to the next one. What is returned tells how the group ended; it need not be waited for.
    pub(in crate::stores::postgres) fn leave(
        mut self,
        completion: Completion<'_>,
    ) -> impl Future<Output = Result<Finished, StoreError>> + Send + use<> {
        const STOPPED: &str = "the group has ended with the runtime that it was opened in";
        let (end, ended) = oneshot::channel();
        let member = GroupMember {
            lease: completion.lease.clone(),
            outcome: completion.outcome.clone(),
            retention: completion.retention,
            outgoing: completion.outgoing.to_vec(),
            end,
        };
        if let Some(Taken { open, back }) = self.0.take() {
            // A group that has gone drops what comes too late.
            let _ = back.send(GivenBack::Left(open, member));
        }
        async move {
            ended
                .await
                .unwrap_or_else(|_| Err(StoreError::unavailable(STOPPED)))
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(Taken { open, back }) = self.0.take() {
            let _ = back.send(GivenBack::Dropped(open));
        }
    }
}

impl GroupMember {
    pub(super) fn completion(&self) -> Completion<'_> {
        Completion::new(&self.lease, &self.outcome, self.retention).publishing(&self.outgoing)
    }

    pub(super) fn tell(self, end: Result<Finished, StoreError>) {
        // Whoever has gone asks the store when the message comes again.
        let _ = self.end.send(end);
    }
}
