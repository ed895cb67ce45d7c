//! The calls of handlers whose messages share a transaction.

use idem_amqp::{
    StoreError,
    store::{Claim, ClaimRequest, GroupStore},
};

use super::{Call, Interfered};

impl<Tx, S: GroupStore<Tx>> GroupStore<Tx> for Interfered<S> {
    fn groups(&self) -> usize {
        self.store.groups()
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let done = self.store.claim_for_group(request);
        self.interfere(Call::Claim, done).await
    }
}
