//! The store of one protected attempt that fails open: whose end local memory takes while the
//! store is away.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    LocalMemory,
    report::{End, Report},
    within_heartbeat,
};
use crate::{
    handler::Outcome,
    store::{Claim, ClaimRequest, Lease, Release, Store, StoreError, Write},
};

pub(in crate::executor) struct OrLocal<S> {
    store: Arc<S>,
    local: Arc<LocalMemory>,
    /// The claim under which the attempt runs.
    request: ClaimRequest,
    has_handed_over: AtomicBool,
}

impl<S: Store> OrLocal<S> {
    pub(in crate::executor) fn new(
        store: &Arc<S>,
        local: &Arc<LocalMemory>,
        request: &ClaimRequest,
    ) -> Self {
        Self {
            store: Arc::clone(store),
            local: Arc::clone(local),
            request: request.clone(),
            has_handed_over: AtomicBool::new(false),
        }
    }

    /// Whether the store is still to be told how the attempt ended.
    pub(in crate::executor) fn has_handed_over(&self) -> bool {
        self.has_handed_over.load(Relaxed)
    }

    /// Asks the store, and remembers the end if that is away.
    async fn or_remember(
        &self,
        lease: &Lease,
        write: impl Future<Output = Result<Write, StoreError>>,
        end: impl FnOnce() -> End,
    ) -> Result<Write, StoreError> {
        let outage = match within_heartbeat(&self.request, write).await {
            Err(error @ StoreError::Unavailable(_)) => error,
            answer => return answer,
        };
        let report = Report::new(self.request.clone(), Some(lease.clone()));
        if let Err(full) = self.local.take_over(report, lease, end()) {
            tracing::warn!(key = %lease.key, error = %full, "no room to remember what was done, it waits for the store");
            return Err(outage);
        }
        tracing::warn!(key = %lease.key, "the store cannot be told how the attempt ended, it is remembered and told later");
        self.has_handed_over.store(true, Relaxed);
        self.local.tell(&self.store);
        Ok(Write::Applied)
    }
}

impl<S> fmt::Debug for OrLocal<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrLocal")
            .field("key", &self.request.key)
            .finish_non_exhaustive()
    }
}

impl<S: Store> Store for OrLocal<S> {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.store.claim(request).await
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.store.extend(lease, by).await
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        let complete = self.store.complete(lease, outcome, retention);
        let outcome = outcome.clone();
        self.or_remember(lease, complete, || End::Completed { outcome, retention })
            .await
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        let release = self.store.release(lease, reason);
        self.or_remember(lease, release, || End::Released(reason.clone()))
            .await
    }
}
