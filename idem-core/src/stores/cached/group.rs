//! Claims whose completions commit with a group are looked up first, like all others.

use super::{Cached, store::LookedUp};
use crate::store::{Claim, ClaimRequest, GroupStore, StoreError};

// Not what somebody is looking for whose store has no groups.
#[diagnostic::do_not_recommend]
impl<Tx, S: GroupStore<Tx>> GroupStore<Tx> for Cached<S> {
    fn groups(&self) -> usize {
        self.0.store.groups()
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let asked = match self.look_up(request).await {
            LookedUp::Known(answer) => return Ok(answer),
            LookedUp::Unknown(asked) => asked,
        };
        let answer = self.0.store.claim_for_group(request).await?;
        self.learn(request, &answer, asked);
        Ok(answer)
    }
}
