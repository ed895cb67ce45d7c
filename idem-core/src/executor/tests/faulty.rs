//! A memory store whose calls fail on command.

use std::{
    collections::{HashMap, VecDeque},
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    handler::Outcome,
    message::{Key, PositionKind},
    store::{Claim, ClaimRequest, Lease, Release, Store, StoreError, Write},
    stores::MemoryStore,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Call {
    Claim,
    Extend,
    Complete,
    Release,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// The call fails and had no effect.
    Unreached,
    /// The call has its effect, and fails all the same.
    AnswerLost,
    /// The call has its effect, and answers after five seconds.
    AnswerLate,
    /// The call never ends.
    Silent,
    /// The call answers that it was fenced.
    Fenced,
    /// The call has its effect after five seconds.
    Late,
    /// The record cannot be read.
    Corrupt,
    /// The store has no room.
    Full,
    /// The call panics.
    Panics,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Faulty {
    store: MemoryStore,
    script: Arc<Mutex<Script>>,
}

#[derive(Debug, Default)]
struct Script {
    next: HashMap<Call, VecDeque<Fault>>,
    always: HashMap<Call, Fault>,
    counts: HashMap<Call, u64>,
    silent: Option<Key>,
}

impl Faulty {
    /// The next calls of this kind fail, one after the other.
    pub(super) fn script<const N: usize>(&self, call: Call, faults: [Fault; N]) {
        self.script.lock().unwrap().next.insert(call, faults.into());
    }

    /// All calls of this kind fail until [`heal`](Self::heal).
    pub(super) fn always(&self, call: Call, fault: Fault) {
        self.script.lock().unwrap().always.insert(call, fault);
    }

    /// No extension of this key's lease is answered until [`heal`](Self::heal).
    pub(super) fn extend_silently(&self, key: Key) {
        self.script.lock().unwrap().silent = Some(key);
    }

    /// All calls fail until [`heal`](Self::heal).
    pub(super) fn go_away(&self) {
        for call in [Call::Claim, Call::Extend, Call::Complete, Call::Release] {
            self.always(call, Fault::Unreached);
        }
    }

    /// The store as another worker sees it, whose link does not fail.
    pub(super) fn elsewhere(&self) -> MemoryStore {
        self.store.clone()
    }

    pub(super) fn heal(&self) {
        let mut script = self.script.lock().unwrap();
        script.next.clear();
        script.always.clear();
        script.silent = None;
    }

    /// How often it was called.
    pub(super) fn count(&self, call: Call) -> u64 {
        let script = self.script.lock().unwrap();
        script.counts.get(&call).copied().unwrap_or_default()
    }

    fn fault(&self, call: Call) -> Option<Fault> {
        let mut script = self.script.lock().unwrap();
        *script.counts.entry(call).or_default() += 1;
        let next = script.next.get_mut(&call).and_then(VecDeque::pop_front);
        next.or_else(|| script.always.get(&call).copied())
    }

    async fn write(
        &self,
        call: Call,
        write: impl Future<Output = Result<Write, StoreError>>,
    ) -> Result<Write, StoreError> {
        match self.fault(call) {
            None => write.await,
            Some(Fault::Fenced) => Ok(Write::Fenced),
            Some(Fault::Late) => late(write).await,
            Some(Fault::AnswerLate) => {
                let answer = write.await;
                late(async { answer }).await
            }
            Some(fault) => Err(broken(fault, write).await),
        }
    }
}

async fn late<T>(call: impl Future<Output = T>) -> T {
    tokio::time::sleep(Duration::from_secs(5)).await;
    call.await
}

async fn broken<T>(fault: Fault, call: impl Future<Output = T>) -> StoreError {
    match fault {
        Fault::AnswerLost => {
            call.await;
        }
        Fault::Silent => pending().await,
        Fault::Corrupt => {
            return StoreError::Corrupt {
                key: "orders:o-1".into(),
                source: "told to fail".into(),
            };
        }
        Fault::Full => return StoreError::Full(7),
        Fault::Panics => panic!("told to panic"),
        Fault::Unreached | Fault::Fenced | Fault::Late | Fault::AnswerLate => {}
    }
    StoreError::unavailable("told to fail")
}

impl Store for Faulty {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        match self.fault(Call::Claim) {
            None => self.store.claim(request).await,
            Some(Fault::Late) => late(self.store.claim(request)).await,
            Some(Fault::AnswerLate) => {
                let answer = self.store.claim(request).await;
                late(async { answer }).await
            }
            Some(fault) => Err(broken(fault, self.store.claim(request)).await),
        }
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        let is_silent = self.script.lock().unwrap().silent.as_ref() == Some(&lease.key);
        if is_silent {
            return pending().await;
        }
        self.write(Call::Extend, self.store.extend(lease, by)).await
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        let complete = self.store.complete(lease, outcome, retention);
        self.write(Call::Complete, complete).await
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        self.write(Call::Release, self.store.release(lease, reason))
            .await
    }

    fn keeps(&self, kind: PositionKind) -> bool {
        self.store.keeps(kind)
    }
}
