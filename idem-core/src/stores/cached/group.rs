//! Completions that commit with a group are remembered when it has committed.

use std::{sync::Arc, time::Duration};

use super::Cached;
use crate::{
    futures::{BoxFuture, FutureExt as _},
    handler::Outcome,
    store::{Claim, ClaimRequest, Finished, GroupStore, Lease, StoreError},
};

// Not what somebody is looking for whose store has no groups.
#[diagnostic::do_not_recommend]
impl<Tx, S: GroupStore<Tx>> GroupStore<Tx> for Cached<S> {
    type Slot = S::Slot;

    fn groups(&self) -> usize {
        self.0.store.groups()
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        if let Some(answer) = self.look_up(request) {
            return Ok(answer);
        }
        let asked = self.0.known.now();
        let answer = self.0.store.claim_for_group(request).await?;
        self.0.known.learn(request, &answer, asked);
        Ok(answer)
    }

    async fn slot(&self, handler: &'static str, size: usize) -> Result<Self::Slot, StoreError> {
        self.0.store.slot(handler, size).await
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
        self.0.known.completing(lease);
        let asked = self.0.known.now();
        let end = self.0.store.leave(slot, lease, outcome, retention);
        let (cached, lease, outcome) = (Arc::clone(&self.0), lease.clone(), outcome.clone());
        async move {
            let end = end.await;
            if matches!(end, Ok(Finished::Committed)) {
                cached.known.completed(&lease, &outcome, retention, asked);
            }
            end
        }
        .boxed()
    }
}
