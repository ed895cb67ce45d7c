//! The marks of one stream, without the type of their store.
//!
//! A transport asks for them with [`Executor::stream_marks`], where the types of a handler's store are known.

use std::{sync::Arc, time::Duration};

use super::Executor;
use crate::{
    futures::{BoxFuture, FutureExt as _},
    message::Key,
    store::{Owner, StoreError, StreamClaim, StreamLease, StreamState, StreamStore, Write},
};

type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// One handler in one stream, as its store keeps it.
pub trait StreamMarks: Send + Sync {
    /// [`StreamStore::claim_stream`].
    fn claim(&self, owner: Owner, lease: Duration) -> Answer<'_, StreamClaim>;

    /// [`StreamStore::extend_stream`].
    fn extend<'a>(
        &'a self,
        lease: &'a StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Answer<'a, Write>;

    /// [`StreamStore::release_stream`].
    fn release<'a>(&'a self, lease: &'a StreamLease, mark: Option<u64>) -> Answer<'a, Write>;

    /// [`StreamStore::look_at_stream`].
    fn look(&self) -> Answer<'_, Option<StreamState>>;
}

impl<S: StreamStore> Executor<S> {
    /// The marks of a stream in this executor's store. The key has the handler's scope and the stream's name.
    #[doc(hidden)]
    pub fn stream_marks(&self, stream: Key) -> Arc<dyn StreamMarks> {
        Arc::new(StoreMarks {
            executor: self.clone(),
            stream,
        })
    }
}

struct StoreMarks<S> {
    executor: Executor<S>,
    /// Scope and stream.
    stream: Key,
}

impl<S: StreamStore> StreamMarks for StoreMarks<S> {
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
