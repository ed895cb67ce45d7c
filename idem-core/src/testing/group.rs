//! Grouped handlers: each message has a transaction of its own here, so that it meets its faults alone.

use std::time::Duration;

use super::FaultyStore;
use crate::{
    futures::BoxFuture,
    handler::Outcome,
    store::{Claim, ClaimRequest, Finished, GroupStore, Lease, Store as _, StoreError},
};

// Not what somebody is looking for whose store has no groups.
#[diagnostic::do_not_recommend]
impl<Tx, S: GroupStore<Tx>> GroupStore<Tx> for FaultyStore<S> {
    type Slot = S::Slot;

    /// None, whatever the store has: what follows is never asked for.
    fn groups(&self) -> usize {
        0
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claim(request).await
    }

    async fn slot(&self, handler: &'static str, size: usize) -> Result<S::Slot, StoreError> {
        self.store.slot(handler, size).await
    }

    fn lend_slot(slot: &mut S::Slot) -> &mut Tx {
        S::lend_slot(slot)
    }

    fn leave(
        &self,
        slot: S::Slot,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> BoxFuture<'static, Result<Finished, StoreError>> {
        self.store.leave(slot, lease, outcome, retention)
    }
}
