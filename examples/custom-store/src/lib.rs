//! A store of one's own: a map behind a lock.
//!
//! Whatever can change one record in one atomic step takes the map's place: a row under `SELECT … FOR
//! UPDATE`, a compare-and-set, a script on the server. What is decided in that step is in [`record`], apart
//! from how it is stored. `tests/conformance.rs` holds both to the contract.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use idem_core::{
    Key, Outcome, Store, StoreError,
    store::{Claim, ClaimRequest, Lease, Purge, Release, Write},
};
use tokio::time::Instant;

pub mod record;

use record::{Micros, Record};

/// Keys and what is known of them. Clones share the map.
#[derive(Debug, Clone)]
pub struct MapStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    table: Mutex<Table>,
    started: (SystemTime, Instant),
}

#[derive(Debug, Default)]
struct Table {
    records: HashMap<Key, Record>,
    /// The highest token of all that were purged: a key that comes again continues above it.
    floor: i64,
}

impl MapStore {
    /// An empty store.
    #[expect(clippy::new_without_default, reason = "a new one is never an old one")]
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            table: Mutex::default(),
            started: (SystemTime::now(), Instant::now()),
        }))
    }

    /// The store's own clock, in microseconds since 1970. It runs on tokio's, which tests can move, and
    /// never steps back.
    fn now(&self) -> Micros {
        let (at, since) = &self.0.started;
        let started = at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        record::micros(started + since.elapsed())
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One write under a lease: it has an effect if the record is still claimed under that token.
    fn write(&self, lease: &Lease, change: impl FnOnce(&mut Record, Micros) -> Write) -> Write {
        let now = self.now();
        match self.table().records.get_mut(&lease.key) {
            Some(record) if record.token() == lease.token => change(record, now),
            _ => Write::Fenced,
        }
    }
}

impl Store for MapStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let now = self.now();
        let mut table = self.table();
        let (answer, record) =
            Record::claim(table.records.get(&request.key), request, now, table.floor);
        if let Some(record) = record {
            table.records.insert(request.key.clone(), record);
        }
        Ok(answer)
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        Ok(self.write(lease, |record, now| record.extend(by, now)))
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        Ok(self.write(lease, |record, now| {
            record.complete(outcome, retention, now)
        }))
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        Ok(self.write(lease, |record, now| record.release(reason, now)))
    }
}

impl Purge for MapStore {
    async fn purge(&self, batch: u32) -> Result<u32, StoreError> {
        let now = self.now();
        let mut table = self.table();
        let Table { records, floor } = &mut *table;
        let forgotten: Vec<_> = records
            .iter()
            .filter(|(_, record)| record.is_forgotten(now))
            .map(|(key, record)| (key.clone(), record.token().get()))
            .take(batch as usize)
            .collect();
        for (key, token) in &forgotten {
            records.remove(key);
            *floor = (*floor).max(*token);
        }
        Ok(u32::try_from(forgotten.len()).unwrap_or(batch))
    }
}
