//! The calls of handlers whose messages share a call.

use idem_amqp::{
    StoreError,
    store::{BatchStore, Claim, ClaimRequest},
};

use super::{Call, Interfered};

impl<Tx, S: BatchStore<Tx>> BatchStore<Tx> for Interfered<S> {
    const MOVES_MARKS: bool = S::MOVES_MARKS;

    async fn claim_for_batch(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let done = self.store.claim_for_batch(request);
        self.interfere(Call::Claim, done).await
    }
}
