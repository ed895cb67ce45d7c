//! This process's memory of what it does while the store is away: a store of its own, which keeps
//! each end for the report.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::{
    Reports,
    entries::Entries,
    report::{End, Report},
};
use crate::{
    executor::unkept::refuse_unkept,
    handler::{FencingToken, Outcome},
    message::Key,
    store::{
        Claim, ClaimRequest, Lease, Release, Store, StoreError, Write,
        rules::record::{self, Record, Step},
    },
    stores::memory::Clock,
};

/// Keeps the rules of the contract by the same state machine as every store. A key is kept from
/// its first claim here until the store has been told of its last end.
pub(in crate::executor) struct LocalMemory {
    // Held for one look-up and one write, never over an await.
    entries: Mutex<Entries>,
    /// Whether anything is remembered. Changed under the lock, and read without it, so that a claim takes no lock
    /// while no store has been away: what a claim must see has passed the lock of
    /// [`InFlight`](crate::executor::in_flight::InFlight) since.
    is_used: AtomicBool,
    capacity: AtomicUsize,
    clock: Clock,
    /// Wakes the reporter.
    pub(super) ended: Notify,
    /// Wakes those who wait until all is told.
    pub(super) told: Notify,
}

impl LocalMemory {
    pub(in crate::executor) fn new(capacity: usize) -> Self {
        Self {
            entries: Mutex::default(),
            is_used: AtomicBool::new(false),
            capacity: AtomicUsize::new(capacity),
            clock: Clock::start(),
            ended: Notify::new(),
            told: Notify::new(),
        }
    }

    pub(super) fn set_capacity(&self, bytes: usize) {
        self.capacity.store(bytes, Relaxed);
    }

    /// What a claim would be answered here, if the key is remembered.
    pub(in crate::executor) fn look(&self, request: &ClaimRequest) -> Option<Claim> {
        if !self.is_used.load(Relaxed) {
            return None;
        }
        let entries = self.entries();
        let record = entries.record(&request.key)?;
        Some(record::claim(Some(record), request, self.clock.now(), 0).answer)
    }

    pub(in crate::executor) fn remembers(&self, key: &Key) -> bool {
        self.is_used.load(Relaxed) && self.entries().record(key).is_some()
    }

    /// Claims because the store is away.
    pub(in crate::executor) fn try_claim(
        &self,
        request: &ClaimRequest,
    ) -> Result<Claim, StoreError> {
        // It knows of no session whether it lives, and of no sequence where its mark is.
        refuse_unkept(self, request)?;
        let mut entries = self.entries();
        entries.is_away = true;
        let step = record::claim(entries.record(&request.key), request, self.clock.now(), 0);
        if let Some(record) = step.write {
            let report = Report::new(request.clone(), None);
            entries.open(report, record, self.capacity.load(Relaxed))?;
            self.is_used.store(true, Relaxed);
        }
        Ok(step.answer)
    }

    /// The attempt that was claimed runs. It does not if another, that had begun under the store's
    /// protection, has ended here meanwhile.
    pub(in crate::executor) fn start(&self, lease: &Lease) -> bool {
        self.entries().start(lease)
    }

    /// Remembers how an attempt ended that had begun under this lease of the store's.
    pub(super) fn take_over(
        &self,
        report: Report,
        lease: &Lease,
        end: End,
    ) -> Result<(), StoreError> {
        let (request, now) = (&report.request, self.clock.now());
        let mut entries = self.entries();
        // A copy may be about to step back: it must find that it was too late.
        let floor = entries.record(&lease.key).map_or(0, |copy| copy.token);
        let Some(mut record) = record::claim(None, request, now, floor).write else {
            unreachable!("a key without a record is free");
        };
        (record.attempts, record.in_doubt) = (lease.attempt, lease.in_doubt);
        let token = FencingToken::new(record.token);
        let here = Lease::new(lease.key.clone(), token, lease.attempt, lease.in_doubt);
        let ended = end.written(record.clone(), now);
        entries.open(report, record, self.capacity.load(Relaxed))?;
        self.is_used.store(true, Relaxed);
        entries.close(&here, ended, Some(end));
        entries.is_away = true;
        self.ended.notify_one();
        Ok(())
    }

    pub(in crate::executor) fn write_release(&self, lease: &Lease, reason: &Release) -> Write {
        let end = match reason {
            Release::Abandoned => None,
            reason => Some(End::Released(reason.clone())),
        };
        self.end(lease, end, |record, token, now| {
            record::release(record, token, reason, now)
        })
    }

    fn end(
        &self,
        lease: &Lease,
        end: Option<End>,
        step: impl FnOnce(Option<&Record>, i64, i64) -> Step<Write>,
    ) -> Write {
        let mut entries = self.entries();
        let (token, now) = (lease.token.get(), self.clock.now());
        let step = step(entries.record(&lease.key), token, now);
        if let Some(record) = step.write {
            entries.close(lease, record, end);
            self.ended.notify_one();
        }
        step.answer
    }

    /// Notices when the attempt under this lease is dropped before it has ended.
    pub(in crate::executor) fn watch(self: &Arc<Self>, lease: &Lease) -> Watch {
        Watch {
            local: Arc::clone(self),
            lease: lease.clone(),
        }
    }

    /// Whether the store was away when it was asked last.
    pub(in crate::executor) fn is_away(&self) -> bool {
        self.entries().is_away
    }

    /// The store has answered.
    pub(super) fn is_back(&self) {
        self.entries().is_away = false;
    }

    pub(super) fn reports(&self) -> Reports {
        self.entries().reports()
    }

    pub(super) fn unreported(&self) -> Vec<Key> {
        self.entries().unreported()
    }

    /// Waits until nothing is left that the store can be told.
    pub(super) async fn all_told(&self) {
        loop {
            let told = self.told.notified();
            if !self.entries().will_tell() {
                return;
            }
            told.await;
        }
    }

    /// Nothing is remembered any more.
    pub(super) fn rest(&self, entries: &mut Entries) {
        entries.is_reported = false;
        self.is_used.store(false, Relaxed);
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LocalMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalMemory")
            .field("reports", &self.reports())
            .finish_non_exhaustive()
    }
}

impl Store for LocalMemory {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.try_claim(request)
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        let mut entries = self.entries();
        let (token, now) = (lease.token.get(), self.clock.now());
        let step = record::extend(entries.record(&lease.key), token, by, now);
        if let Some(record) = step.write {
            entries.keep(&lease.key, record);
        }
        Ok(step.answer)
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        let end = Some(End::Completed {
            outcome: outcome.clone(),
            retention,
        });
        Ok(self.end(lease, end, |record, token, now| {
            record::complete(record, token, outcome, retention, now)
        }))
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        Ok(self.write_release(lease, reason))
    }
}

/// An attempt that runs unprotected. If this is dropped before the attempt has ended, it has
/// vanished, and that is reported.
#[derive(Debug)]
pub(in crate::executor) struct Watch {
    local: Arc<LocalMemory>,
    lease: Lease,
}

impl Watch {
    pub(in crate::executor) fn local(&self) -> &Arc<LocalMemory> {
        &self.local
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.local.entries().vanish(&self.lease) {
            self.local.ended.notify_one();
        }
    }
}
