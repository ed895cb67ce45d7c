//! The bugs of handlers whose messages share a call.

use idem_amqp::{
    StoreError,
    store::{BatchStore, Claim, ClaimRequest},
};

use super::Flawed;

impl<Tx, S> BatchStore<Tx> for Flawed<S>
where
    S: BatchStore<Tx> + Clone,
{
    const MOVES_MARKS: bool = S::MOVES_MARKS;

    async fn claim_for_batch(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.store.claim_for_batch(&self.claimed(request)).await
    }
}
