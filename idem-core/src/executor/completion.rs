//! Completes the key of work that is done, also if its caller has gone.
//!
//! [`write_until_known`](super::leased_claim::write_until_known) calls [`complete`] for leased, observed and
//! unprotected work. What must stay true:
//!
//! - The effect has happened, so the completion is repeated under the same lease until the store has answered it.
//! - Nothing is released meanwhile, and the key counts as worked on in this process.
//!
//! Otherwise the work would run again.

use std::{sync::Arc, time::Duration};

use tokio::runtime::Handle;
use tracing::Instrument as _;

use super::{in_flight::Working, until_known::until_known};
use crate::{
    error_chain::ErrorChain,
    handler::Outcome,
    store::{Lease, Store, StoreError, Write},
};

/// Completes, and says whether the store took it. An error is *unknown*: the store may have taken it, so the same
/// completion is repeated until there is an answer.
///
/// Dropped half way, it goes on in the background: a task repeats the first call, and makes the later ones from the
/// start. `working` is dropped when the store has answered.
pub(super) async fn complete<S: Store>(
    store: &Arc<S>,
    lease: &Lease,
    outcome: Outcome,
    retention: Duration,
    working: Option<Working>,
) -> Write {
    // All that it takes to repeat it is in there from the start: this future may be dropped at any await.
    let mut unanswered = Unanswered(Some(PendingCompletion {
        store: Arc::clone(store),
        lease: lease.clone(),
        outcome,
        retention,
        working,
    }));
    let first = unanswered.send().await;
    // Taken only now: if this future was dropped while it waited, the drop has found it and repeats it.
    let completion = unanswered.0.take().expect(UNTAKEN);
    match first {
        Ok(write) => completion.end(write),
        Err(error) => {
            tracing::warn!(key = %lease.key, error = %ErrorChain::of(&error), "completion unknown, repeating it until the store tells");
            // On a task of its own, because the caller may go away: its connection may end before the outage does.
            let repeat = tokio::spawn(completion.repeat().in_current_span());
            // There is no answer only if the runtime shuts down, and this future with it, or if the store's
            // code panics. Then it is not known whether the work is recorded, so the message must not be
            // acknowledged: `Fenced` stands for "unknown" here.
            repeat.await.unwrap_or(Write::Fenced)
        }
    }
}

/// A completion, with all that it takes to repeat it without the caller.
struct PendingCompletion<S> {
    store: Arc<S>,
    lease: Lease,
    outcome: Outcome,
    retention: Duration,
    /// Until this is dropped, the key is worked on here; `None` if nobody marked it.
    working: Option<Working>,
}

impl<S: Store> PendingCompletion<S> {
    /// Sends it once.
    async fn send(&self) -> Result<Write, StoreError> {
        let Self {
            store,
            lease,
            outcome,
            retention,
            ..
        } = self;
        store.complete(lease, outcome, *retention).await
    }

    /// Sends it until the store has answered.
    async fn repeat(self) -> Write {
        let write = until_known("complete", &self.lease.key, || self.send()).await;
        self.end(write)
    }

    /// Tells copies that wait here, and marks the key as worked on no longer.
    fn end(self, write: Write) -> Write {
        // Only what the store took: a copy must not be acknowledged as a duplicate of a completion that was refused.
        if write == Write::Applied
            && let Some(working) = self.working
        {
            working.completed(&self.outcome, self.retention);
        }
        write
    }
}

/// A completion that is sent for the first time. If this is dropped before the answer has come, the completion is
/// repeated in the background. `None` once it is answered.
struct Unanswered<S: Store>(Option<PendingCompletion<S>>);

const UNTAKEN: &str = "it is taken when it is answered";

impl<S: Store> Unanswered<S> {
    /// Sends it once.
    async fn send(&self) -> Result<Write, StoreError> {
        self.0.as_ref().expect(UNTAKEN).send().await
    }
}

impl<S: Store> Drop for Unanswered<S> {
    fn drop(&mut self) {
        // Without a runtime there is nothing to repeat it on: the lease runs out then.
        if let Some(completion) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(completion.repeat().in_current_span());
        }
    }
}
