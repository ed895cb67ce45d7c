//! A store in this process's memory: for tests, for one worker, and as the reference of the contract.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    handler::Outcome,
    message::{Key, Position, PositionKind, SessionKey},
    store::{
        Claim, ClaimRequest, Lease, OpenSession, Opened, Owner, Purge, Release, SequenceStore,
        SessionStore, Store, StoreError, StreamClaim, StreamLease, StreamState, StreamStore,
        Touched, Write,
        rules::{
            record::{self, Record, Step},
            session,
            stream::{self, Stream},
        },
    },
};

mod clock;
mod kept;
mod operator;
mod records;
mod sequences;
mod sessions;
#[cfg(test)]
mod tests;

pub(crate) use clock::Clock;
use kept::Kept;

/// Remembers keys as long as the process lives. Clones share what they remember.
///
/// It keeps all rules of [`Store`], but knows nothing of other processes and nothing after a
/// restart: a message that is delivered again then runs again.
///
/// Time is tokio's: under a paused clock, leases and retentions end when the test says so.
///
/// ```
/// use idem_core::{Executor, MemoryStore};
///
/// let store = MemoryStore::new();
/// let (one, other) = (Executor::new(store.clone()), Executor::new(store)); // they share the keys
/// # drop((one, other));
/// ```
#[derive(Clone)]
pub struct MemoryStore(Arc<Shared>);

struct Shared {
    // Held for one look-up and one write, never over an await.
    kept: Mutex<Kept>,
    clock: Clock,
}

/// A [`MemoryStore`] in the making.
///
/// ```
/// use idem_core::MemoryStore;
///
/// let store = MemoryStore::builder().capacity(100_000).build();
/// # drop(store);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct MemoryStoreBuilder {
    capacity: usize,
}

impl MemoryStore {
    /// An empty store without a bound.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Starts an empty store, without a bound unless one is set.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder {
            capacity: usize::MAX,
        }
    }

    /// Forgets a key, as an operator does who deletes its record.
    #[cfg(test)]
    pub(crate) fn forget(&self, key: &Key) {
        self.kept().records.remove(key);
    }

    fn write(
        &self,
        lease: &Lease,
        step: impl FnOnce(Option<&Record>, i64) -> Step<Write>,
    ) -> Write {
        let records = &mut self.kept().records;
        let step = step(records.get(&lease.key), self.0.clock.now());
        if let Some(record) = step.write {
            records.put(lease.key.clone(), record);
        }
        step.answer
    }

    fn write_stream<A>(
        &self,
        stream: &Key,
        step: impl FnOnce(Option<&Stream>, i64) -> (Option<Stream>, A),
    ) -> A {
        let streams = &mut self.kept().streams;
        let (written, answer) = step(streams.get(stream), self.0.clock.now());
        if let Some(written) = written {
            streams.insert(stream.clone(), written);
        }
        answer
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Every change is whole once `put` or `remove` has begun, so a panic elsewhere is no harm.
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("keys", &self.kept().records.len())
            .finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStoreBuilder {
    /// Remembers at most this many keys. Claims of new ones answer [`StoreError::Full`] until retentions end: nothing
    /// is forgotten early, and nothing runs twice.
    pub fn capacity(mut self, keys: usize) -> Self {
        self.capacity = keys;
        self
    }

    /// Ends the store.
    pub fn build(self) -> MemoryStore {
        MemoryStore(Arc::new(Shared {
            kept: Mutex::new(Kept::new(self.capacity)),
            clock: Clock::start(),
        }))
    }
}

impl Store for MemoryStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let position = request.checked_position()?;
        let mut kept = self.kept();
        let now = self.0.clock.now();
        match position {
            Position::None => kept.claim(request, now),
            Position::Session(place) => kept.claim_in_session(request, place, now),
            Position::Sequence(place) => kept.claim_numbered(request, place, now),
        }
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        let token = lease.token.get();
        Ok(self.write(lease, |record, now| record::extend(record, token, by, now)))
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        let token = lease.token.get();
        Ok(self.write(lease, |record, now| {
            record::complete(record, token, outcome, retention, now)
        }))
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        let token = lease.token.get();
        Ok(self.write(lease, |record, now| {
            record::release(record, token, reason, now)
        }))
    }

    fn keeps(&self, kind: PositionKind) -> bool {
        match kind {
            PositionKind::Session | PositionKind::Sequence => true,
        }
    }
}

impl Purge for MemoryStore {
    async fn purge(&self, batch: u32) -> Result<u32, StoreError> {
        let now = self.0.clock.now();
        let mut kept = self.kept();
        kept.purge_audit(now);
        let records = kept.records.purge(batch, now);
        Ok(records + kept.sequences.purge(batch - records, now))
    }
}

impl SequenceStore for MemoryStore {}

impl SessionStore for MemoryStore {
    async fn open(&self, request: &OpenSession) -> Result<Opened, StoreError> {
        let sessions = &mut self.kept().sessions;
        let known = sessions.get(&request.session);
        match session::open(known, request, self.0.clock.now()) {
            Some(session) => {
                sessions.put(request.session.clone(), session);
                Ok(Opened::New)
            }
            None => Ok(Opened::Known),
        }
    }

    async fn touch(&self, session: &SessionKey) -> Result<Touched, StoreError> {
        let mut kept = self.kept();
        let now = self.0.clock.now();
        match session::touch(kept.sessions.get(session), now) {
            Some(touched) => {
                kept.put_session(session, Some(touched), now);
                Ok(Touched::Living)
            }
            None => Ok(Touched::Expired),
        }
    }

    async fn close(&self, session: &SessionKey) -> Result<(), StoreError> {
        let mut kept = self.kept();
        let now = self.0.clock.now();
        let closed = session::close(kept.sessions.get(session), now);
        kept.put_session(session, closed, now);
        Ok(())
    }

    async fn expire(&self, batch: u32) -> Result<u32, StoreError> {
        let mut kept = self.kept();
        let ended = kept.sessions.take_removable(batch, self.0.clock.now());
        for (key, session) in &ended {
            kept.remove_answers(key, session.answers());
        }
        Ok(u32::try_from(ended.len()).expect("at most `batch`, which is a u32"))
    }
}

impl StreamStore for MemoryStore {
    async fn claim_stream(
        &self,
        stream: &Key,
        owner: Owner,
        lease: Duration,
    ) -> Result<StreamClaim, StoreError> {
        Ok(self.write_stream(stream, |known, now| {
            stream::claim(known, stream, owner, lease, now)
        }))
    }

    async fn extend_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Result<Write, StoreError> {
        let token = lease.token.get();
        Ok(self.write_stream(&lease.stream, |known, now| {
            stream::extend(known, token, mark, by, now)
        }))
    }

    async fn release_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
    ) -> Result<Write, StoreError> {
        let token = lease.token.get();
        Ok(self.write_stream(&lease.stream, |known, now| {
            stream::release(known, token, mark, now)
        }))
    }

    async fn look_at_stream(&self, stream: &Key) -> Result<Option<StreamState>, StoreError> {
        Ok(self.write_stream(stream, |known, now| {
            (None, known.map(|known| stream::state(known, now)))
        }))
    }

    async fn list_streams(&self) -> Result<Vec<(Key, StreamState)>, StoreError> {
        let now = self.0.clock.now();
        let kept = self.kept();
        let seen = kept
            .streams
            .iter()
            .map(|(key, known)| (key.clone(), stream::state(known, now)));
        let mut seen: Vec<_> = seen.collect();
        seen.sort_unstable_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        Ok(seen)
    }

    async fn set_mark(&self, stream: &Key, mark: Option<u64>) -> Result<(), StoreError> {
        self.write_stream(stream, |known, now| {
            (Some(stream::set(known, mark, now)), ())
        });
        Ok(())
    }
}
