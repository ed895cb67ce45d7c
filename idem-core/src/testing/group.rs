//! Grouped handlers: each message has a transaction of its own here, so that it meets its faults alone.

use super::FaultyStore;
use crate::store::{Claim, ClaimRequest, GroupStore, Store as _, StoreError};

// Not what somebody is looking for whose store has no groups.
#[diagnostic::do_not_recommend]
impl<Tx, S: GroupStore<Tx>> GroupStore<Tx> for FaultyStore<S> {
    /// None, whatever the store has: no slot is ever asked for.
    fn groups(&self) -> usize {
        0
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claim(request).await
    }
}
