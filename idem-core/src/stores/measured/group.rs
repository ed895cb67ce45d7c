//! Stores that lend a transaction to several in turn.

use std::{sync::Arc, time::Duration};

use tracing::{Instrument as _, Span};

use super::{Call, Measured, answer::Answer as _};
use crate::telemetry::{Stopwatch, spans};
use crate::{
    futures::{BoxFuture, FutureExt as _},
    handler::Outcome,
    store::{Claim, ClaimRequest, Finished, GroupStore, Lease, StoreError},
};

impl<Tx, S: GroupStore<Tx>> GroupStore<Tx> for Measured<S> {
    type Slot = S::Slot;

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

    async fn slot(&self, handler: &'static str, size: usize) -> Result<S::Slot, StoreError> {
        self.store.slot(handler, size).await
    }

    fn lend_slot(slot: &mut S::Slot) -> &mut Tx {
        S::lend_slot(slot)
    }

    fn leave(
        &self,
        slot: S::Slot,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> BoxFuture<'static, Result<Finished, StoreError>> {
        let left = self.store.leave(slot, lease, outcome, retention);
        let span = spans::complete(lease.key.as_str());
        if cfg!(not(feature = "metrics")) && span.is_disabled() {
            return left;
        }
        let (commit, began) = (Arc::clone(&self.calls.commit), Stopwatch::start());
        let left = left.map(move |end| {
            commit.ended(began, &end);
            end
        });
        Box::pin(left.instrument(span))
    }
}

impl Call {
    /// A group has ended.
    fn ended(&self, began: Stopwatch, end: &Result<Finished, StoreError>) {
        self.seconds.record(began);
        match end {
            Ok(finished) => spans::answered(&Span::current(), finished.label(), None),
            Err(error) => {
                self.errors.add();
                spans::unanswered(&Span::current(), error.kind(), error);
            }
        }
    }
}
