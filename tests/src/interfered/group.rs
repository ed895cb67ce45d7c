//! The calls of handlers whose messages share a transaction.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use idem_amqp::{Claim, ClaimRequest, Finished, GroupStore, Lease, Outcome, StoreError};

use super::{Call, Fate, Interfered, die};

impl<Tx, S: GroupStore<Tx>> GroupStore<Tx> for Interfered<S> {
    type Slot = S::Slot;

    fn groups(&self) -> usize {
        self.store.groups()
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let done = self.store.claim_for_group(request);
        self.interfere(Call::Claim, done).await
    }

    async fn slot(&self, handler: &'static str, size: usize) -> Result<Self::Slot, StoreError> {
        self.store.slot(handler, size).await
    }

    fn lend_slot(slot: &mut Self::Slot) -> &mut Tx {
        S::lend_slot(slot)
    }

    fn leave(
        &self,
        slot: Self::Slot,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> BoxFuture<'static, Result<Finished, StoreError>> {
        let number = self.counts[Call::Complete as usize].fetch_add(1, SeqCst) + 1;
        let fate = (self.plan)(Call::Complete, number);
        let unknown = |why| Err(StoreError::unavailable(why));
        match fate {
            Fate::Refuse => {
                drop(slot);
                return async move { unknown("refused by the test") }.boxed();
            }
            Fate::DieBefore => die(),
            Fate::Pass | Fate::LoseAnswer | Fate::DieAfter => {}
        }
        let end = self.store.leave(slot, lease, outcome, retention);
        async move {
            let end = end.await;
            match fate {
                Fate::DieAfter => die(),
                Fate::LoseAnswer => unknown("the answer was lost by the test"),
                _ => end,
            }
        }
        .boxed()
    }
}
