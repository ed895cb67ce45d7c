//! The one place where a store's type is forgotten.

use std::{any::Any, fmt::Debug, time::Duration};

use crate::{
    futures::BoxFuture,
    handler::Outcome,
    message::{Key, PositionKind, SessionKey},
    store::{
        Claim, ClaimRequest, Lease, OpenSession, Opened, Owner, Purge, Release, SessionStore,
        Store, StoreError, StreamClaim, StreamLease, StreamState, StreamStore, Touched, Write,
    },
};

type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// [`Store`] with boxed futures, so that it can be a `dyn`.
pub(super) trait Erased: Debug + Send + Sync {
    fn boxed_claim<'a>(&'a self, request: &'a ClaimRequest) -> Answer<'a, Claim>;
    fn boxed_extend<'a>(&'a self, lease: &'a Lease, by: Duration) -> Answer<'a, Write>;
    fn boxed_complete<'a>(
        &'a self,
        lease: &'a Lease,
        outcome: &'a Outcome,
        retention: Duration,
    ) -> Answer<'a, Write>;
    fn boxed_release<'a>(&'a self, lease: &'a Lease, reason: &'a Release) -> Answer<'a, Write>;
    fn erased_keeps(&self, kind: PositionKind) -> bool;
    fn as_any(&self) -> &dyn Any;
}

/// [`Purge`] likewise.
pub(super) trait ErasedPurge: Debug + Send + Sync {
    fn boxed_purge(&self, batch: u32) -> Answer<'_, u32>;
}

/// [`SessionStore`] likewise.
pub(super) trait ErasedSessions: Debug + Send + Sync {
    fn boxed_open<'a>(&'a self, request: &'a OpenSession) -> Answer<'a, Opened>;
    fn boxed_touch<'a>(&'a self, session: &'a SessionKey) -> Answer<'a, Touched>;
    fn boxed_close<'a>(&'a self, session: &'a SessionKey) -> Answer<'a, ()>;
    fn boxed_expire(&self, batch: u32) -> Answer<'_, u32>;
}

impl<S: Store> Erased for S {
    fn boxed_claim<'a>(&'a self, request: &'a ClaimRequest) -> Answer<'a, Claim> {
        Box::pin(S::claim(self, request))
    }

    fn boxed_extend<'a>(&'a self, lease: &'a Lease, by: Duration) -> Answer<'a, Write> {
        Box::pin(S::extend(self, lease, by))
    }

    fn boxed_complete<'a>(
        &'a self,
        lease: &'a Lease,
        outcome: &'a Outcome,
        retention: Duration,
    ) -> Answer<'a, Write> {
        Box::pin(S::complete(self, lease, outcome, retention))
    }

    fn boxed_release<'a>(&'a self, lease: &'a Lease, reason: &'a Release) -> Answer<'a, Write> {
        Box::pin(S::release(self, lease, reason))
    }

    fn erased_keeps(&self, kind: PositionKind) -> bool {
        S::keeps(self, kind)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<S: Purge> ErasedPurge for S {
    fn boxed_purge(&self, batch: u32) -> Answer<'_, u32> {
        Box::pin(S::purge(self, batch))
    }
}

impl<S: SessionStore> ErasedSessions for S {
    fn boxed_open<'a>(&'a self, request: &'a OpenSession) -> Answer<'a, Opened> {
        Box::pin(S::open(self, request))
    }

    fn boxed_touch<'a>(&'a self, session: &'a SessionKey) -> Answer<'a, Touched> {
        Box::pin(S::touch(self, session))
    }

    fn boxed_close<'a>(&'a self, session: &'a SessionKey) -> Answer<'a, ()> {
        Box::pin(S::close(self, session))
    }

    fn boxed_expire(&self, batch: u32) -> Answer<'_, u32> {
        Box::pin(S::expire(self, batch))
    }
}

/// [`StreamStore`] likewise.
pub(super) trait ErasedStreams: Debug + Send + Sync {
    fn boxed_claim_stream<'a>(
        &'a self,
        stream: &'a Key,
        owner: Owner,
        lease: Duration,
    ) -> Answer<'a, StreamClaim>;
    fn boxed_extend_stream<'a>(
        &'a self,
        lease: &'a StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Answer<'a, Write>;
    fn boxed_release_stream<'a>(
        &'a self,
        lease: &'a StreamLease,
        mark: Option<u64>,
    ) -> Answer<'a, Write>;
    fn boxed_look_at_stream<'a>(&'a self, stream: &'a Key) -> Answer<'a, Option<StreamState>>;
    fn boxed_list_streams(&self) -> Answer<'_, Vec<(Key, StreamState)>>;
    fn boxed_set_mark<'a>(&'a self, stream: &'a Key, mark: Option<u64>) -> Answer<'a, ()>;
}

impl<S: StreamStore> ErasedStreams for S {
    fn boxed_claim_stream<'a>(
        &'a self,
        stream: &'a Key,
        owner: Owner,
        lease: Duration,
    ) -> Answer<'a, StreamClaim> {
        Box::pin(S::claim_stream(self, stream, owner, lease))
    }

    fn boxed_extend_stream<'a>(
        &'a self,
        lease: &'a StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Answer<'a, Write> {
        Box::pin(S::extend_stream(self, lease, mark, by))
    }

    fn boxed_release_stream<'a>(
        &'a self,
        lease: &'a StreamLease,
        mark: Option<u64>,
    ) -> Answer<'a, Write> {
        Box::pin(S::release_stream(self, lease, mark))
    }

    fn boxed_look_at_stream<'a>(&'a self, stream: &'a Key) -> Answer<'a, Option<StreamState>> {
        Box::pin(S::look_at_stream(self, stream))
    }

    fn boxed_list_streams(&self) -> Answer<'_, Vec<(Key, StreamState)>> {
        Box::pin(S::list_streams(self))
    }

    fn boxed_set_mark<'a>(&'a self, stream: &'a Key, mark: Option<u64>) -> Answer<'a, ()> {
        Box::pin(S::set_mark(self, stream, mark))
    }
}
