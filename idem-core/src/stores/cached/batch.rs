//! Claims whose completions commit with those of a batch are looked up first, like all others.

use super::{Cached, store::LookedUp};
use crate::store::{BatchStore, Claim, ClaimRequest, StoreError};

// Not what somebody is looking for whose store has no batches.
#[diagnostic::do_not_recommend]
impl<Tx, S: BatchStore<Tx>> BatchStore<Tx> for Cached<S> {
    const MOVES_MARKS: bool = S::MOVES_MARKS;

    async fn claim_for_batch(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let asked = match self.look_up(request).await {
            LookedUp::Known(answer) => return Ok(answer),
            LookedUp::Unknown(asked) => asked,
        };
        let answer = self.0.store.claim_for_batch(request).await?;
        self.learn(request, &answer, asked);
        Ok(answer)
    }
}
