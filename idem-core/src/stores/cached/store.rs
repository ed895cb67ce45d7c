//! The store's calls: a claim is looked up first, a completion is learnt, the rest passes through.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use super::Cached;
use crate::{
    handler::Outcome,
    message::{PositionKind, SessionKey},
    store::{
        Claim, ClaimRequest, Lease, OpenSession, Opened, Purge, Release, SequenceStore,
        SessionStore, Store, StoreError, Touched, Write,
    },
};

impl<S> Cached<S> {
    /// A replay is never answered from memory: a person has just looked at the store. Nor is a
    /// session's request: only the store knows whether the session lives, and hears its sign of life.
    /// Nor is a numbered message, which keeps its sequence going.
    pub(super) fn look_up(&self, request: &ClaimRequest) -> Option<Claim> {
        if request.replay || !request.position.is_none() {
            return None;
        }
        self.0.lookups.fetch_add(1, Relaxed);
        let answer = self.0.known.answer(request)?;
        self.0.hits.fetch_add(1, Relaxed);
        Some(answer)
    }
}

impl<S: Store> Store for Cached<S> {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        if let Some(answer) = self.look_up(request) {
            return Ok(answer);
        }
        let asked = self.0.known.now();
        let answer = self.0.store.claim(request).await?;
        self.0.known.learn(request, &answer, asked);
        Ok(answer)
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.0.store.extend(lease, by).await
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        let known = &self.0.known;
        known.completing(lease);
        let asked = known.now();
        let write = self.0.store.complete(lease, outcome, retention).await?;
        if write == Write::Applied {
            known.completed(lease, outcome, retention, asked);
        }
        Ok(write)
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        self.0.store.release(lease, reason).await
    }

    fn keeps(&self, kind: PositionKind) -> bool {
        self.0.store.keeps(kind)
    }
}

impl<S: Purge> Purge for Cached<S> {
    async fn purge(&self, batch: u32) -> Result<u32, StoreError> {
        self.0.store.purge(batch).await
    }
}

impl<S: SequenceStore> SequenceStore for Cached<S> {}

impl<S: SessionStore> SessionStore for Cached<S> {
    async fn open(&self, request: &OpenSession) -> Result<Opened, StoreError> {
        self.0.store.open(request).await
    }

    async fn touch(&self, session: &SessionKey) -> Result<Touched, StoreError> {
        self.0.store.touch(session).await
    }

    async fn close(&self, session: &SessionKey) -> Result<(), StoreError> {
        self.0.store.close(session).await
    }

    async fn expire(&self, batch: u32) -> Result<u32, StoreError> {
        self.0.store.expire(batch).await
    }
}
