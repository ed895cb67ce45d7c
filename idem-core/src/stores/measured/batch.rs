//! Stores that complete several keys with one commit.

use tracing::Instrument as _;

use super::Measured;
use crate::{
    store::{BatchStore, Claim, ClaimRequest, StoreError},
    telemetry::spans,
};

impl<Tx, S: BatchStore<Tx>> BatchStore<Tx> for Measured<S> {
    const MOVES_MARKS: bool = S::MOVES_MARKS;

    async fn claim_for_batch(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let asked = self.calls.claim.ask(spans::claim(request.key.as_str()));
        let answer = self
            .store
            .claim_for_batch(request)
            .instrument(asked.span())
            .await;
        asked.answered(answer)
    }
}
