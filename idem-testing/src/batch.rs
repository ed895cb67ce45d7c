//! Batches: messages that are delivered together share a call, as far as their handler allows. A message that is
//! delivered alone is a batch of one.

use idem_core::store::{BatchStore, Claim, ClaimRequest, StoreError};

use crate::{Call, FaultyStore, probe};

// Not what somebody is looking for whose store has no batches.
#[diagnostic::do_not_recommend]
impl<Tx, S: BatchStore<Tx>> BatchStore<Tx> for FaultyStore<S> {
    const MOVES_MARKS: bool = S::MOVES_MARKS;

    async fn claim_for_batch(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        probe::before_claim().await;
        let claim = self
            .call(Call::Claim, self.store.claim_for_batch(request))
            .await?;
        probe::claimed(&claim).await;
        Ok(claim)
    }
}
