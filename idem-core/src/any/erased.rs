//! The one place where a store's type is forgotten.

use std::{any::Any, fmt::Debug, time::Duration};

use futures_util::future::BoxFuture;

use crate::{Claim, ClaimRequest, Lease, Outcome, Purge, Release, Store, StoreError, Write};

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
    fn as_any(&self) -> &dyn Any;
}

/// [`Purge`] likewise.
pub(super) trait ErasedPurge: Debug + Send + Sync {
    fn boxed_purge(&self, batch: u32) -> Answer<'_, u32>;
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

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<S: Purge> ErasedPurge for S {
    fn boxed_purge(&self, batch: u32) -> Answer<'_, u32> {
        Box::pin(S::purge(self, batch))
    }
}
