//! Claims whose completions commit with those of a batch are looked up first, like all others.

use super::Cached;
use crate::store::{BatchStore, Claim, ClaimRequest, StoreError};

// Not what somebody is looking for whose store has no batches.
#[diagnostic::do_not_recommend]
impl<Tx, S: BatchStore<Tx>> BatchStore<Tx> for Cached<S> {
    async fn claim_for_batch(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        if let Some(answer) = self.look_up(request) {
            return Ok(answer);
        }
        let asked = self.0.known.now();
        let answer = self.0.store.claim_for_batch(request).await?;
        self.0.known.learn(request, &answer, asked);
        Ok(answer)
    }
}
