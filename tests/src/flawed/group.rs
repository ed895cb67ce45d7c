//! The bugs of handlers whose messages share a transaction.

use std::time::Duration;

use futures_util::{FutureExt as _, future::BoxFuture};
use idem_amqp::{Claim, ClaimRequest, Finished, GroupStore, Lease, Outcome, StoreError};

use super::{Flawed, LATE};

impl<Tx, S> GroupStore<Tx> for Flawed<S>
where
    S: GroupStore<Tx, Transaction: 'static, Slot: 'static> + Clone,
{
    type Slot = S::Slot;

    fn groups(&self) -> usize {
        self.store.groups()
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.store.claim_for_group(&self.claimed(request)).await
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
        if !self.answers_early() {
            return self.store.leave(slot, lease, outcome, retention);
        }
        let (store, lease, outcome) = (self.store.clone(), lease.clone(), outcome.clone());
        tokio::spawn(async move {
            tokio::time::sleep(LATE).await;
            store.leave(slot, &lease, &outcome, retention).await
        });
        std::future::ready(Ok(Finished::Committed)).boxed()
    }
}
