//! The calls about streams.

use std::time::Duration;

use idem_amqp::{
    Key, StoreError,
    store::{Owner, StreamClaim, StreamLease, StreamState, StreamStore, Write},
};

use super::{Call, Interfered};

impl<S: StreamStore> StreamStore for Interfered<S> {
    async fn claim_stream(
        &self,
        stream: &Key,
        owner: Owner,
        lease: Duration,
    ) -> Result<StreamClaim, StoreError> {
        let done = self.store.claim_stream(stream, owner, lease);
        self.interfere(Call::Stream, done).await
    }

    async fn extend_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Result<Write, StoreError> {
        let done = self.store.extend_stream(lease, mark, by);
        self.interfere(Call::Stream, done).await
    }

    async fn release_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
    ) -> Result<Write, StoreError> {
        let done = self.store.release_stream(lease, mark);
        self.interfere(Call::Stream, done).await
    }

    async fn look_at_stream(&self, stream: &Key) -> Result<Option<StreamState>, StoreError> {
        let done = self.store.look_at_stream(stream);
        self.interfere(Call::Stream, done).await
    }

    async fn list_streams(&self) -> Result<Vec<(Key, StreamState)>, StoreError> {
        let done = self.store.list_streams();
        self.interfere(Call::Stream, done).await
    }

    async fn set_mark(&self, stream: &Key, mark: Option<u64>) -> Result<(), StoreError> {
        let done = self.store.set_mark(stream, mark);
        self.interfere(Call::Stream, done).await
    }
}
