//! The completion of work that is done, whoever still waits for it.

use std::{sync::Arc, time::Duration};

use tokio::runtime::Handle;
use tracing::Instrument as _;

use super::{in_flight::Working, until_known::until_known};
use crate::{
    error_chain::ErrorChain,
    handler::Outcome,
    store::{Lease, Store, StoreError, Write},
};

/// Completes, and keeps at it in the background if the answer is lost, or if the caller goes away
/// before it has come: the work is done and must not run again. Until then the key is worked on.
pub(super) async fn complete<S: Store>(
    store: &Arc<S>,
    lease: &Lease,
    outcome: Outcome,
    retention: Duration,
    working: Option<Working>,
) -> Write {
    let mut unanswered = Unanswered(Some(Completion {
        store: Arc::clone(store),
        lease: lease.clone(),
        outcome,
        retention,
        working,
    }));
    let first = unanswered.send().await;
    let completion = unanswered.0.take().expect(UNTAKEN);
    match first {
        Ok(write) => completion.end(write),
        Err(error) => {
            tracing::warn!(key = %lease.key, error = %ErrorChain::of(&error), "completion unknown, repeating it until the store tells");
            let repeat = tokio::spawn(completion.repeat().in_current_span());
            // The task can only fail when the runtime shuts down, and this future with it.
            repeat.await.unwrap_or(Write::Fenced)
        }
    }
}

struct Completion<S> {
    store: Arc<S>,
    lease: Lease,
    outcome: Outcome,
    retention: Duration,
    working: Option<Working>,
}

impl<S: Store> Completion<S> {
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

    async fn repeat(self) -> Write {
        let write = until_known("complete", &self.lease.key, || self.send()).await;
        self.end(write)
    }

    fn end(self, write: Write) -> Write {
        if write == Write::Applied
            && let Some(working) = self.working
        {
            working.completed(&self.outcome, self.retention);
        }
        write
    }
}

/// One that is sent for the first time: dropped, it is repeated.
struct Unanswered<S: Store>(Option<Completion<S>>);

const UNTAKEN: &str = "it is taken when it is answered";

impl<S: Store> Unanswered<S> {
    async fn send(&self) -> Result<Write, StoreError> {
        self.0.as_ref().expect(UNTAKEN).send().await
    }
}

impl<S: Store> Drop for Unanswered<S> {
    fn drop(&mut self) {
        if let Some(completion) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(completion.repeat().in_current_span());
        }
    }
}
