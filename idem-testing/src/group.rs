//! Grouped handlers: messages that are delivered together share a transaction, all others have one of their own, so
//! that each meets its faults alone.

use idem_core::store::{Claim, ClaimRequest, GroupStore, Store as _, StoreError};

use crate::FaultyStore;

// Not what somebody is looking for whose store has no groups.
#[diagnostic::do_not_recommend]
impl<Tx, S: GroupStore<Tx>> GroupStore<Tx> for FaultyStore<S> {
    fn groups(&self) -> usize {
        if self.shares_transactions {
            self.store.groups()
        } else {
            0
        }
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        if self.shares_transactions {
            self.undisturbed(self.store.claim_for_group(request)).await
        } else {
            self.claim(request).await
        }
    }
}
