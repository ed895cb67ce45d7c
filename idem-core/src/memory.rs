//! A store in this process's memory: for tests, for one worker, and as the reference of the contract.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    Claim, ClaimRequest, Lease, Outcome, Purge, Release, Store, StoreError, Write,
    store::record::{self, Record, Step},
};

mod clock;
mod records;
#[cfg(test)]
mod tests;

pub(crate) use clock::Clock;
use records::Records;

/// Remembers keys as long as the process lives. Clones share what they remember.
///
/// It keeps all rules of [`Store`], but knows nothing of other processes and nothing after a
/// restart: a message that is delivered again then runs again.
///
/// Time is tokio's: under a paused clock, leases and retentions end when the test says so.
#[derive(Clone)]
pub struct MemoryStore(Arc<Shared>);

struct Shared {
    // Held for one look-up and one write, never over an await.
    records: Mutex<Records>,
    capacity: usize,
    when_full: WhenFull,
    clock: Clock,
}

/// What a bounded store does about one key too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// Claims of new keys answer [`StoreError::Full`] until retentions end: nothing runs twice.
    Refuse,
    /// Forgets the completed key whose retention ends first, and refuses only if none is
    /// completed. A copy of a forgotten key runs again.
    ForgetOldestCompleted,
}

/// A [`MemoryStore`] in the making.
#[derive(Debug, Clone)]
#[must_use]
pub struct MemoryStoreBuilder {
    capacity: usize,
    when_full: WhenFull,
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
            when_full: WhenFull::Refuse,
        }
    }

    /// As an operator does who deletes a record.
    #[cfg(test)]
    pub(crate) fn forget(&self, key: &crate::Key) {
        self.records().remove(key);
    }

    fn write(
        &self,
        lease: &Lease,
        step: impl FnOnce(Option<&Record>, i64) -> Step<Write>,
    ) -> Write {
        let mut records = self.records();
        let step = step(records.get(&lease.key), self.0.clock.now());
        if let Some(record) = step.write {
            records.put(lease.key.clone(), record);
        }
        step.answer
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        // Every change is whole once `put` or `remove` has begun, so a panic elsewhere is no harm.
        self.0
            .records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("keys", &self.records().len())
            .finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStoreBuilder {
    /// Remembers at most this many keys, and says what happens to one more.
    pub fn capacity(mut self, keys: usize, when_full: WhenFull) -> Self {
        self.capacity = keys;
        self.when_full = when_full;
        self
    }

    /// Ends the store.
    pub fn build(self) -> MemoryStore {
        MemoryStore(Arc::new(Shared {
            records: Mutex::default(),
            capacity: self.capacity,
            when_full: self.when_full,
            clock: Clock::start(),
        }))
    }
}

impl Store for MemoryStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let mut records = self.records();
        let now = self.0.clock.now();
        let known = records.get(&request.key);
        let is_new = known.is_none();
        let step = record::claim(known, request, now, records.floor());
        if is_new {
            records.make_room(self.0.capacity, self.0.when_full, now)?;
        }
        if let Some(record) = step.write {
            records.put(request.key.clone(), record);
        }
        Ok(step.answer)
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
}

impl Purge for MemoryStore {
    async fn purge(&self, batch: u32) -> Result<u32, StoreError> {
        let now = self.0.clock.now();
        Ok(self.records().purge(batch, now))
    }
}
