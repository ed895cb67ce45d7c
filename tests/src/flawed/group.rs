//! The bugs of handlers whose messages share a transaction.

use idem_amqp::{
    StoreError,
    store::{Claim, ClaimRequest, GroupStore},
};

use super::Flawed;

impl<Tx, S> GroupStore<Tx> for Flawed<S>
where
    S: GroupStore<Tx> + Clone,
{
    fn groups(&self) -> usize {
        self.store.groups()
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.store.claim_for_group(&self.claimed(request)).await
    }
}
