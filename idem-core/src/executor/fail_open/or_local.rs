//! The store of one attempt that runs under the store's lease and whose policy is to fail open: if the store is
//! away when the attempt ends, the local memory takes the end.
//!
//! [`Protection::of_store`](crate::executor::leased_claim::Protection::of_store) makes one for each such attempt. What
//! must stay true:
//!
//! - The store is asked first.
//! - Only an outage hands the end over, never a refusal or a record that cannot be read.
//! - What was handed over is reported under the same lease, and its message is not counted as committed.

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

/// A store for the end of one attempt. To [`completion`](crate::executor::completion) it is a store like any; only
/// [`has_handed_over`](Self::has_handed_over) tells the difference.
pub(in crate::executor) struct OrLocal<S> {
    /// Who gave the lease, and is asked first.
    store: Arc<S>,
    /// Who takes the end while the store is away.
    local: Arc<LocalMemory>,
    /// The claim under which the attempt runs; the report repeats it if it has to.
    request: ClaimRequest,
    /// Whether the local memory has the end.
    has_handed_over: AtomicBool,
}

impl<S: Store> OrLocal<S> {
    /// The store of one attempt that this request has claimed.
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

    /// Makes the write, and hands the end over to the local memory if the store is away. [`Write::Applied`]
    /// means that one of both has it: see [`has_handed_over`](Self::has_handed_over).
    ///
    /// If the local memory is full, the error is the store's, and the caller repeats the write until one of
    /// both takes it. Dropped half way, it may have made the write; nothing is handed over.
    async fn or_remember(
        &self,
        lease: &Lease,
        write: impl Future<Output = Result<Write, StoreError>>,
        end: impl FnOnce() -> End,
    ) -> Result<Write, StoreError> {
        // A call that is not answered in time may have had its effect. The report repeats it under the same
        // lease, which answers `Applied` then; a new claim could not tell this completion from another
        // worker's.
        let outage = match within_heartbeat(&self.request, write).await {
            Err(error @ StoreError::Unavailable(_)) => error,
            // An answer, or an error of a store that is there: the caller sees to it.
            answer => return answer,
        };
        // With the store's lease: the report makes the same write under it, and does not claim.
        let report = Report::new(self.request.clone(), Some(lease.clone()));
        if let Err(full) = self.local.take_over(report, lease, end()) {
            tracing::warn!(key = %lease.key, error = %full, "no room to remember what was done, it waits for the store");
            // The caller asks again, and the store may be back before there is room.
            return Err(outage);
        }
        tracing::warn!(key = %lease.key, "the store cannot be told how the attempt ended, it is remembered and told later");
        // Read by the same task, after this call: nothing has to be ordered.
        self.has_handed_over.store(true, Relaxed);
        // Last: the reporter finds the end when it looks.
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

/// Claims and heartbeats are the store's alone; an end is the store's or the local memory's.
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
