//! The marks of one stream, without the type of their store.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use idem_core::{
    Executor, Key, StoreError,
    store::{Owner, StreamClaim, StreamLease, StreamState, StreamStore, Write},
};

use crate::telemetry::StreamMeters;

type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// A stream that a handler reads: where it is, and what is measured of it.
#[derive(Clone)]
pub(in crate::worker) struct StreamSource {
    pub(in crate::worker) marks: Arc<dyn Marks>,
    /// Registered when the handler is consumed, as all handles are.
    pub(in crate::worker) meters: Arc<StreamMeters>,
}

/// One handler in one stream, as its store keeps it.
pub(in crate::worker) trait Marks: Send + Sync {
    fn claim(&self, owner: Owner, lease: Duration) -> Answer<'_, StreamClaim>;
    fn extend<'a>(
        &'a self,
        lease: &'a StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Answer<'a, Write>;
    fn release<'a>(&'a self, lease: &'a StreamLease, mark: Option<u64>) -> Answer<'a, Write>;
    fn look(&self) -> Answer<'_, Option<StreamState>>;
}

pub(in crate::worker) struct StoreMarks<S> {
    pub(in crate::worker) executor: Executor<S>,
    /// Scope and stream.
    pub(in crate::worker) stream: Key,
}

impl<S: StreamStore> Marks for StoreMarks<S> {
    fn claim(&self, owner: Owner, lease: Duration) -> Answer<'_, StreamClaim> {
        let store = self.executor.store();
        store.claim_stream(&self.stream, owner, lease).boxed()
    }

    fn extend<'a>(
        &'a self,
        lease: &'a StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Answer<'a, Write> {
        self.executor.store().extend_stream(lease, mark, by).boxed()
    }

    fn release<'a>(&'a self, lease: &'a StreamLease, mark: Option<u64>) -> Answer<'a, Write> {
        self.executor.store().release_stream(lease, mark).boxed()
    }

    fn look(&self) -> Answer<'_, Option<StreamState>> {
        self.executor.store().look_at_stream(&self.stream).boxed()
    }
}
