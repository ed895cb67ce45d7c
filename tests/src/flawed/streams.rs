//! Streams, as they are: the bugs are elsewhere.

use std::time::Duration;

use idem_amqp::{
    Key, StoreError,
    store::{Owner, StreamClaim, StreamLease, StreamState, StreamStore, Write},
};

use super::Flawed;

impl<S: StreamStore + Clone> StreamStore for Flawed<S> {
    async fn claim_stream(
        &self,
        stream: &Key,
        owner: Owner,
        lease: Duration,
    ) -> Result<StreamClaim, StoreError> {
        self.store.claim_stream(stream, owner, lease).await
    }

    async fn extend_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Result<Write, StoreError> {
        self.store.extend_stream(lease, mark, by).await
    }

    async fn release_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
    ) -> Result<Write, StoreError> {
        self.store.release_stream(lease, mark).await
    }

    async fn look_at_stream(&self, stream: &Key) -> Result<Option<StreamState>, StoreError> {
        self.store.look_at_stream(stream).await
    }

    async fn list_streams(&self) -> Result<Vec<(Key, StreamState)>, StoreError> {
        self.store.list_streams().await
    }

    async fn set_mark(&self, stream: &Key, mark: Option<u64>) -> Result<(), StoreError> {
        self.store.set_mark(stream, mark).await
    }
}
