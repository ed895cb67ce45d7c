//! A straightforward store, correct unless it is given a flaw.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use idem_core::{
    Key, Outcome, Store, StoreError,
    message::{Position, PositionKind},
    operator::AuditEntry,
    store::{Claim, ClaimRequest, Lease, Owner, Purge, Release, Write},
};
use tokio::{task::yield_now, time::Instant};

use crate::{
    flaw::Flaw, group::Group, outbox::Waiting, record::Record, sequence::Sequence,
    session::Session, stream::Stream,
};

/// All in one map behind one lock, on tokio's clock.
#[derive(Debug, Clone)]
pub(crate) struct PlainStore {
    flaw: Option<Flaw>,
    start: Instant,
    /// If it is a server's, and not tokio's.
    clock: Option<Arc<Mutex<Duration>>>,
    shared: Arc<Mutex<Shared>>,
    /// What messages share.
    pub(crate) group: Arc<Group>,
    /// Held by claims of numbered messages, which take it and then the other.
    pub(crate) turn: Arc<Mutex<()>>,
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) records: HashMap<String, Record>,
    pub(crate) sessions: HashMap<String, Session>,
    pub(crate) sequences: HashMap<String, Sequence>,
    pub(crate) streams: HashMap<String, Stream>,
    pub(crate) floor: i64,
    /// What operators did, to which record.
    pub(crate) audit: Vec<(String, Owner, AuditEntry)>,
    effects: Vec<String>,
    /// What handlers have published.
    pub(crate) outbox: Vec<Waiting>,
    /// What stands in the handlers' own table.
    pub(crate) entities: BTreeSet<String>,
}

impl Shared {
    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(record) = self.records.remove(name) {
            self.floor = self.floor.max(record.token);
        }
    }
}

impl PlainStore {
    /// Must be called inside tokio.
    pub(crate) fn new(flaw: Option<Flaw>) -> Self {
        Self {
            flaw,
            start: Instant::now(),
            clock: None,
            shared: Arc::default(),
            group: Arc::default(),
            turn: Arc::default(),
        }
    }

    /// The same with a clock of its own, as a server has.
    pub(crate) fn on_a_server(flaw: Option<Flaw>) -> Self {
        Self {
            clock: Some(Arc::default()),
            ..Self::new(flaw)
        }
    }

    /// Moves the clock of a server.
    pub(crate) fn advance(&self, by: Duration) {
        let clock = self.clock.as_ref().expect("it has a clock of its own");
        *clock.lock().expect("nothing panics under the lock") += by;
    }

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Since the store was made.
    pub(crate) fn now(&self) -> Duration {
        let moved = |clock: &Arc<Mutex<Duration>>| *clock.lock().expect("nothing panics");
        match &self.clock {
            Some(clock) if self.has(Flaw::AsksTheWorkerForTheTime) => {
                self.start.elapsed() + moved(clock)
            }
            Some(clock) => moved(clock),
            None => self.start.elapsed(),
        }
    }

    /// How the key is stored.
    pub(crate) fn name(&self, key: &Key) -> String {
        let name = key.as_str();
        match self.flaw {
            Some(Flaw::FoldsCase) => name.to_lowercase(),
            Some(Flaw::CutsKeys) => name.chars().take(110).collect(),
            Some(Flaw::OneRecordPerScope) => key.scope().to_owned(),
            Some(Flaw::OneSessionForAll) => match name.rsplit_once('~') {
                Some((_, number)) => number.to_owned(),
                None => name.to_owned(),
            },
            Some(Flaw::KeysInAscii) => name.chars().filter(char::is_ascii).collect(),
            Some(Flaw::KeysAsFileNames) => name.replace(|c: char| c.is_ascii_punctuation(), "_"),
            _ => name.to_owned(),
        }
    }

    pub(crate) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("nothing panics under the lock")
    }

    pub(crate) fn next_token(&self, old: Option<&Record>, floor: i64) -> i64 {
        let micros = 1_000_000 + i64::try_from(self.now().as_micros()).expect("not so far away");
        let known =
            old.filter(|record| !self.has(Flaw::TokensStartOver) || !self.forgotten(record));
        let old = known.map_or(0, |record| record.token);
        match self.flaw {
            Some(Flaw::TokensFromTheClock) => micros,
            Some(Flaw::TokensStartOver) => old + 1,
            Some(Flaw::LosesItsTokens) => floor + 1,
            _ => micros.max(old + 1).max(floor + 1),
        }
    }

    pub(crate) fn claim_now(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        match &request.position {
            Position::Session(place) if !self.has(Flaw::IgnoresSessions) => {
                self.claim_placed(request, place)
            }
            Position::Sequence(place) if !self.has(Flaw::IgnoresSequences) => {
                self.claim_numbered(request, place)
            }
            _ => Ok(self.claim_key(request)),
        }
    }

    /// Decides about a key, whether there is a session or not.
    pub(crate) fn claim_key(&self, request: &ClaimRequest) -> Claim {
        let mut shared = self.shared();
        let name = self.name(&request.key);
        if self.has(Flaw::ClaimsInTwoSteps) {
            let seen = shared.records.get(&name).cloned();
            drop(shared);
            std::thread::sleep(Duration::from_millis(1));
            shared = self.shared();
            if let Some(seen) = seen {
                shared.records.insert(name.clone(), seen);
            } else {
                shared.records.remove(&name);
            }
        }
        let old = shared.records.get(&name);
        let token = self.next_token(old, shared.floor);
        let (record, claim) = self.decide(old, request, token);
        if let Some(mut record) = record {
            let known = old.filter(|old| self.has(Flaw::CreatesOnce) || !self.forgotten(old));
            if let Some(old) = known.filter(|_| !self.has(Flaw::CreatesWithEachAttempt)) {
                record.created_at = old.created_at;
            }
            if self.has(Flaw::LosesItsTokens) {
                shared.floor = shared.floor.max(record.token);
            }
            shared.records.insert(name, record);
        }
        claim
    }

    pub(crate) fn write(
        &self,
        lease: &Lease,
        write: impl FnOnce(&Self, &mut Record, bool) -> Write,
    ) -> Write {
        let mut shared = self.shared();
        let Some(record) = shared.records.get_mut(&self.name(&lease.key)) else {
            return if self.has(Flaw::AppliesToNothing) {
                Write::Applied
            } else {
                Write::Fenced
            };
        };
        let token = lease.token.get();
        let current =
            record.token == token || self.has(Flaw::AcceptsGreaterTokens) && token > record.token;
        write(self, record, current)
    }

    /// Takes a record out, and puts it back later.
    async fn take_out(&self, lease: &Lease) {
        if self.has(Flaw::WritesInTwoSteps) {
            let name = self.name(&lease.key);
            let record = self.shared().records.remove(&name);
            yield_now().await;
            if let Some(record) = record {
                self.shared().records.insert(name, record);
            }
        }
    }

    /// What a restart does to it.
    pub(crate) fn restart(&self) {
        let mut shared = self.shared();
        if self.has(Flaw::LosesItsRecords) {
            shared.records.clear();
            shared.sessions.clear();
            shared.sequences.clear();
            shared.streams.clear();
        }
        if self.has(Flaw::LosesItsTokens) {
            shared.floor = 0;
        }
    }

    pub(crate) fn record_effects(&self, effects: impl IntoIterator<Item = String>) {
        self.shared().effects.extend(effects);
    }

    pub(crate) fn effects(&self, name: &str) -> usize {
        let shared = self.shared();
        shared
            .effects
            .iter()
            .filter(|effect| *effect == name)
            .count()
    }
}

impl Store for PlainStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claim_now(request)
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.take_out(lease).await;
        Ok(self.write(lease, |store, record, current| {
            store.extend_record(record, current, by)
        }))
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        self.take_out(lease).await;
        Ok(self.write(lease, |store, record, current| {
            store.complete_record(record, current, outcome, retention)
        }))
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        self.take_out(lease).await;
        Ok(self.write(lease, |store, record, current| {
            store.release_record(record, current, reason)
        }))
    }

    fn keeps(&self, kind: PositionKind) -> bool {
        match kind {
            PositionKind::Session => !self.has(Flaw::DeniesSessions),
            PositionKind::Sequence => !self.has(Flaw::DeniesSequences),
        }
    }
}

impl Purge for PlainStore {
    async fn purge(&self, batch: u32) -> Result<u32, StoreError> {
        let mut shared = self.shared();
        let forgotten = shared
            .records
            .iter()
            .filter(|(_, record)| self.purges(record));
        let batch = if self.has(Flaw::PurgesTooMany) {
            usize::MAX
        } else {
            batch as usize
        };
        let names: Vec<String> = forgotten
            .map(|(name, _)| name.clone())
            .take(batch)
            .collect();
        for name in &names {
            shared.remove(name);
        }
        let left = batch.saturating_sub(names.len());
        let removed = names.len() + self.purge_sequences(&mut shared, left);
        Ok(u32::try_from(removed).expect("so many fit no test"))
    }
}
