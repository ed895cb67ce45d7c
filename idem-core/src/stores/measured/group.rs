//! Stores that lend a transaction to several in turn.

use tracing::Instrument as _;

use super::Measured;
use crate::{
    store::{Claim, ClaimRequest, GroupStore, StoreError},
    telemetry::spans,
};

impl<Tx, S: GroupStore<Tx>> GroupStore<Tx> for Measured<S> {
    fn groups(&self) -> usize {
        self.store.groups()
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let asked = self.calls.claim.ask(spans::claim(request.key.as_str()));
        let answer = self
            .store
            .claim_for_group(request)
            .instrument(asked.span())
            .await;
        asked.answered(answer)
    }
}
