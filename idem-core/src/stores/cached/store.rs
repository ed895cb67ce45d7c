//! The store's calls: a claim is looked up first, a completion is learnt, the rest passes through.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use tokio::time::Instant;

use super::{Cached, SharedCache, shared::Moment};
use crate::{
    handler::Outcome,
    message::{Key, PositionKind, SessionKey},
    store::{
        Claim, ClaimRequest, Lease, OpenSession, Opened, Owner, Purge, Release, SequenceStore,
        SessionStore, Store, StoreError, StreamClaim, StreamLease, StreamState, StreamStore,
        Touched, Write,
    },
};

impl<S> Cached<S> {
    /// A replay is never answered from memory: a person has just looked at the store. Nor is a
    /// session's request: only the store knows whether the session lives, and hears its sign of life.
    /// Nor is a numbered message, which keeps its sequence going.
    pub(super) async fn look_up(&self, request: &ClaimRequest) -> LookedUp {
        if !request.position.is_none() {
            return LookedUp::Unknown(self.asking());
        }
        let is_outdated = if request.replay {
            // What it would find is not looked for.
            true
        } else {
            self.0.lookups.fetch_add(1, Relaxed);
            match self.find(request).await {
                Found::Answer(answer) => {
                    self.0.hits.fetch_add(1, Relaxed);
                    return LookedUp::Known(answer);
                }
                Found::OtherContent => true,
                Found::Nothing => false,
            }
        };
        LookedUp::Unknown(Asked {
            is_outdated,
            ..self.asking()
        })
    }

    async fn find(&self, request: &ClaimRequest) -> Found {
        if let Some(answer) = self.0.known.answer(request) {
            return Found::Answer(answer);
        }
        let Some(shared) = &self.0.shared else {
            return Found::Nothing;
        };
        match shared.look(&request.key).await {
            None => Found::Nothing,
            Some(known) if known.is_answer_to(request) => Found::Answer(Claim::Completed {
                outcome: known.outcome,
                remaining: known.remaining,
            }),
            Some(_) => Found::OtherContent,
        }
    }

    /// The store is about to be asked.
    pub(super) fn asking(&self) -> Asked {
        Asked {
            at: self.0.known.now(),
            shared: self.0.shared.as_ref().and_then(SharedCache::now),
            is_outdated: false,
        }
    }

    /// Learns from the store's answer to a claim.
    pub(super) fn learn(&self, request: &ClaimRequest, answer: &Claim, asked: Asked) {
        self.0.known.learn(request, answer, asked.at);
        let Some(shared) = &self.0.shared else {
            return;
        };
        match answer {
            Claim::Completed { .. } => self.share(&request.key, asked),
            Claim::Acquired(_) | Claim::Held { .. } | Claim::Quarantined if asked.is_outdated => {
                shared.forget_soon(request.key.clone());
            }
            _ => {}
        }
    }

    /// Learns that a completion has taken effect.
    pub(super) fn completed(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
        asked: Asked,
    ) {
        self.0.known.completed(lease, outcome, retention, asked.at);
        self.share(&lease.key, asked);
    }

    /// Hands on what is known of a completed key, if it is shared.
    fn share(&self, key: &Key, asked: Asked) {
        if let Some(shared) = &self.0.shared
            && let Some(known) = self.0.known.take(key)
            && let Some(moment) = asked.shared
        {
            shared.tell(key.clone(), known, moment, self.0.longest);
        }
    }
}

/// What is known of the key of a claim.
pub(super) enum LookedUp {
    Known(Claim),
    /// The store is asked.
    Unknown(Asked),
}

enum Found {
    Answer(Claim),
    OtherContent,
    Nothing,
}

/// When the store was asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    at: Instant,
    /// The same by the clock of the shared cache.
    shared: Option<Moment>,
    /// What the shared cache knows is not true any more, unless the store says that the key is completed.
    is_outdated: bool,
}

impl<S: Store> Store for Cached<S> {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let asked = match self.look_up(request).await {
            LookedUp::Known(answer) => return Ok(answer),
            LookedUp::Unknown(asked) => asked,
        };
        let answer = self.0.store.claim(request).await?;
        self.learn(request, &answer, asked);
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
        self.0.known.completing(lease);
        let asked = self.asking();
        let write = self.0.store.complete(lease, outcome, retention).await?;
        if write == Write::Applied {
            self.completed(lease, outcome, retention, asked);
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

impl<S: StreamStore> StreamStore for Cached<S> {
    async fn claim_stream(
        &self,
        stream: &Key,
        owner: Owner,
        lease: Duration,
    ) -> Result<StreamClaim, StoreError> {
        self.0.store.claim_stream(stream, owner, lease).await
    }

    async fn extend_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Result<Write, StoreError> {
        self.0.store.extend_stream(lease, mark, by).await
    }

    async fn release_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
    ) -> Result<Write, StoreError> {
        self.0.store.release_stream(lease, mark).await
    }

    async fn look_at_stream(&self, stream: &Key) -> Result<Option<StreamState>, StoreError> {
        self.0.store.look_at_stream(stream).await
    }

    async fn list_streams(&self) -> Result<Vec<(Key, StreamState)>, StoreError> {
        self.0.store.list_streams().await
    }

    async fn set_mark(&self, stream: &Key, mark: Option<u64>) -> Result<(), StoreError> {
        self.0.store.set_mark(stream, mark).await
    }
}
