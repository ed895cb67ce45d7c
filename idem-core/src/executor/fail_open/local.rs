//! This process's memory of what it does while the store is away: a store of its own, which keeps each end for the
//! report.
//!
//! [`claim_locally`](crate::executor::claim_locally) claims from it, [`OrLocal`](super::OrLocal) hands ends over to it,
//! and the reporter empties it. What must stay true:
//!
//! - Claims are decided by the same rules as in every store.
//! - A key that the store has not been told of is never forgotten and never decided by the store.
//! - An end that is handed over takes precedence over a copy's claim that has not started.

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
    UnprotectedStats,
    entries::Entries,
    report::{End, Report},
};
use crate::{
    executor::unsupported_position::refuse_unsupported_position,
    handler::{FencingToken, Outcome},
    message::Key,
    store::{
        Claim, ClaimRequest, Lease, Release, Store, StoreError, Write,
        rules::record::{self, Record, Step},
    },
    stores::memory::Clock,
};

/// Keeps the rules of the contract by the same state machine as every store. A key is kept from its first claim here
/// until the store has been told of its last end.
pub(in crate::executor) struct LocalMemory {
    /// Locked for one look-up and one write, never over an await.
    entries: Mutex<Entries>,
    /// Whether anything is remembered. It is changed under the lock and read without it, so that a claim takes
    /// no lock while no store has been away. `Relaxed` is enough: whoever sets this takes the lock of
    /// [`InFlight`](crate::executor::in_flight::InFlight) afterwards, and a claim takes that lock before it
    /// reads this for the last time. So that lock puts the two in order.
    is_used: AtomicBool,
    /// How many bytes may be remembered.
    capacity: AtomicUsize,
    /// Leases, delays and retentions go by this clock while the store's is out of reach.
    clock: Clock,
    /// Wakes the reporter.
    pub(super) ended: Notify,
    /// Wakes those who wait until all is told.
    pub(super) told: Notify,
}

impl LocalMemory {
    /// An empty memory of so many bytes.
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

    /// Sets how many bytes may be remembered, from the next claim on. Nothing is forgotten if that is less than
    /// before.
    pub(super) fn set_capacity(&self, bytes: usize) {
        self.capacity.store(bytes, Relaxed);
    }

    /// What a claim would be answered here, if the key is remembered. It claims nothing.
    pub(in crate::executor) fn look(&self, request: &ClaimRequest) -> Option<Claim> {
        if !self.is_used.load(Relaxed) {
            return None;
        }
        let entries = self.entries();
        // What is not remembered here, the store knows.
        let record = entries.record(&request.key)?;
        Some(record::claim(Some(record), request, self.clock.now(), 0).answer)
    }

    /// Whether the store has yet to be told something of this key.
    pub(in crate::executor) fn remembers(&self, key: &Key) -> bool {
        self.is_used.load(Relaxed) && self.entries().record(key).is_some()
    }

    /// Claims because the store is away, and notes that it is. An attempt that is acquired here may yet be
    /// given back: it runs, and is reported, only once it has [started](Self::start).
    ///
    /// # Errors
    /// [`StoreError::Full`] if there is no room, [`StoreError::Refused`] for a message of a session or a sequence.
    pub(in crate::executor) fn try_claim(
        &self,
        request: &ClaimRequest,
    ) -> Result<Claim, StoreError> {
        // Only the store knows whether a session still lives, and where the mark of a sequence is.
        refuse_unsupported_position(self, request)?;
        let mut entries = self.entries();
        // Also if nothing is claimed below: whoever comes here has found the store away.
        entries.is_away = true;
        let step = record::claim(entries.record(&request.key), request, self.clock.now(), 0);
        if let Some(record) = step.write {
            // Without a lease: the store has given none, so the report claims first.
            let report = Report::new(request.clone(), None);
            entries.open(report, record, self.capacity.load(Relaxed))?;
            self.is_used.store(true, Relaxed);
        }
        Ok(step.answer)
    }

    /// Lets an attempt run that was claimed here. `false` if another attempt, which the store had let run
    /// before it went away, has handed its end over meanwhile: then the key is done, or failed and not due yet.
    pub(in crate::executor) fn start(&self, lease: &Lease) -> bool {
        self.entries().start(lease)
    }

    /// Remembers how an attempt ended that had begun under this lease of the store's, and has it reported under that
    /// lease. Copies in this process are decided by it until the store has been told.
    ///
    /// # Errors
    /// [`StoreError::Full`] if there is no room; then the end has to wait for the store.
    pub(super) fn take_over(
        &self,
        report: Report,
        lease: &Lease,
        end: End,
    ) -> Result<(), StoreError> {
        let (request, now) = (&report.request, self.clock.now());
        let mut entries = self.entries();
        // A copy may have claimed the key here and not started yet. This token is greater than its token, so it finds
        // that its claim is not the current one, and does not run what is done.
        let floor = entries.record(&lease.key).map_or(0, |copy| copy.token);
        let Some(mut record) = record::claim(None, request, now, floor).write else {
            unreachable!("a key without a record is free");
        };
        // The store had counted the attempts: they go on from there.
        (record.attempts, record.in_doubt) = (lease.attempt, lease.in_doubt);
        let token = FencingToken::new(record.token);
        let here = Lease::new(lease.key.clone(), token, lease.attempt, lease.in_doubt);
        let ended = end.written(record.clone(), now);
        entries.open(report, record, self.capacity.load(Relaxed))?;
        self.is_used.store(true, Relaxed);
        // Opened and closed under one lock: a copy never sees the attempt as one that runs.
        entries.close(&here, ended, Some(end));
        // Only an outage brings an end here.
        entries.is_away = true;
        self.ended.notify_one();
        Ok(())
    }

    /// Gives a key back that was claimed here. An attempt that was abandoned never ran, and is not reported.
    pub(in crate::executor) fn write_release(&self, lease: &Lease, reason: &Release) -> Write {
        let end = match reason {
            Release::Abandoned => None,
            reason => Some(End::Released(reason.clone())),
        };
        self.end(lease, end, |record, token, now| {
            record::release(record, token, reason, now)
        })
    }

    /// Ends the attempt under this lease by a step of the state machine, and wakes the reporter. If the lease
    /// is not the current one, nothing is changed, and the answer is [`Write::Fenced`].
    fn end(
        &self,
        lease: &Lease,
        end: Option<End>,
        step: impl FnOnce(Option<&Record>, i64, i64) -> Step<Write>,
    ) -> Write {
        let mut entries = self.entries();
        let (token, now) = (lease.token.get(), self.clock.now());
        let step = step(entries.record(&lease.key), token, now);
        // The rules decide: a stale token, and an end that is repeated, write nothing.
        if let Some(record) = step.write {
            entries.close(lease, record, end);
            self.ended.notify_one();
        }
        step.answer
    }

    /// A guard that notices when the attempt under this lease is dropped before it has ended.
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

    /// Notes that the store has answered a claim: the next claim waits for it as long as ever.
    pub(super) fn store_answered(&self) {
        self.entries().is_away = false;
    }

    /// What was done, and how much of it the store has been told.
    pub(super) fn unprotected(&self) -> UnprotectedStats {
        self.entries().unprotected()
    }

    /// The keys of which the store has yet to be told an end.
    pub(super) fn unreported(&self) -> Vec<Key> {
        self.entries().unreported()
    }

    /// Waits until nothing is left that the store can be told: for ever, while it is away. A dropped call stops
    /// nothing.
    pub(super) async fn all_told(&self) {
        loop {
            // Made before the look: it gets every wake-up from now on, so none is missed between the look and
            // the wait.
            let told = self.told.notified();
            if !self.entries().will_tell() {
                return;
            }
            told.await;
        }
    }

    /// Notes that nothing is remembered any more, and that the reporter ends. The caller holds the lock under which
    /// it found that: whatever is remembered after it starts another reporter.
    pub(super) fn rest(&self, entries: &mut Entries) {
        entries.is_reported = false;
        self.is_used.store(false, Relaxed);
    }

    /// Locks. What is written under the lock is never half done, also if something has panicked.
    pub(super) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LocalMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalMemory")
            .field("reports", &self.unprotected())
            .finish_non_exhaustive()
    }
}

/// A store as far as an attempt and its heartbeat need one. It always answers; only a claim may fail, when
/// there is no room.
impl Store for LocalMemory {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.try_claim(request)
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        let mut entries = self.entries();
        let (token, now) = (lease.token.get(), self.clock.now());
        let step = record::extend(entries.record(&lease.key), token, by, now);
        if let Some(record) = step.write {
            // The reporter extends the store's lease by itself, if it has one: nothing is to be reported of this.
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

/// An attempt that runs unprotected. If this is dropped before the attempt has ended, the attempt has vanished,
/// and that is reported: nobody knows whether its effect happened, and the next attempt has to be told so.
#[derive(Debug)]
pub(in crate::executor) struct Watch {
    /// Where it is reported.
    local: Arc<LocalMemory>,
    /// The local one, by whose token the attempt is known.
    lease: Lease,
}

impl Watch {
    /// The memory that gave the lease.
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
