//! Groups of the plain store: one at a time, whose members wait in a list until it ends.

use std::{
    mem,
    sync::{
        Arc, Mutex as SyncMutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use idem_core::{
    FencingToken, Outcome, StoreError,
    store::{Claim, ClaimRequest, Finished, GroupStore, Lease, Write},
};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

use crate::{flaw::Flaw, store::PlainStore, transaction::Ledger};

/// What messages share.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Whoever has it has the slot.
    slot: Arc<Mutex<()>>,
    waiting: Arc<AtomicUsize>,
    members: SyncMutex<Vec<Member>>,
}

#[derive(Debug)]
struct Member {
    lease: Lease,
    outcome: Outcome,
    retention: Duration,
    written: Vec<String>,
    told: oneshot::Sender<Finished>,
}

impl Slot {
    pub(crate) fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}

/// One who waits; dropped, it waits no more.
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn join(group: &Group) -> Self {
        group.waiting.fetch_add(1, Relaxed);
        Self(Arc::clone(&group.waiting))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// A slot, until it is left.
pub(crate) struct Slot {
    ledger: Ledger,
    _guard: OwnedMutexGuard<()>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let store = &self.ledger.store;
        if store.has(Flaw::KeepsDroppedSeats) {
            store.record_effects(mem::take(&mut self.ledger.written));
        }
        store.end_group_if_nobody_waits();
    }
}

impl PlainStore {
    fn end_group_if_nobody_waits(&self) {
        if self.group.waiting.load(Relaxed) > 0 && !self.has(Flaw::CommitsEachSeat) {
            return;
        }
        let members = mem::take(&mut *self.group.members.lock().expect("nothing panics"));
        for member in members {
            let gone = member.told.is_closed() && self.has(Flaw::ForgetsWhoDoesNotWait);
            let end = if gone {
                Finished::RolledBack
            } else {
                self.commit_member(&member)
            };
            let _ = member.told.send(end);
        }
    }

    /// Fenced members are rolled back by themselves.
    fn commit_member(&self, member: &Member) -> Finished {
        let write = self.write(&member.lease, |store, record, current| {
            store.complete_record(record, current, &member.outcome, member.retention)
        });
        if write == Write::Fenced && !self.has(Flaw::CommitsUnfenced) {
            return Finished::RolledBack;
        }
        if !self.has(Flaw::LosesEffects) {
            self.record_effects(member.written.clone());
        }
        Finished::Committed
    }
}

impl GroupStore<Ledger> for PlainStore {
    fn groups(&self) -> usize {
        1
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        match self.claim_now(request)? {
            Claim::Completed { .. } if self.has(Flaw::LendsToDuplicates) => {
                let token = FencingToken::new(i64::MAX);
                let lease = Lease::new(request.key.clone(), token, 2, false);
                Ok(Claim::Acquired(lease))
            }
            answer => Ok(answer),
        }
    }
}

impl PlainStore {
    /// Waits for the slot.
    pub(crate) async fn slot(&self) -> Slot {
        let waiting = Waiting::join(&self.group);
        if self.has(Flaw::WaitsForTheGone) {
            let gone = Waiting::join(&self.group);
            let guard = Arc::clone(&self.group.slot).lock_owned();
            let gone = mem::ManuallyDrop::new(gone);
            let guard = guard.await;
            drop((mem::ManuallyDrop::into_inner(gone), waiting));
            return self.seated(guard);
        }
        let guard = Arc::clone(&self.group.slot).lock_owned().await;
        drop(waiting);
        self.seated(guard)
    }

    /// Leaves the slot, and waits until the group has ended.
    pub(crate) async fn leave(
        &self,
        mut slot: Slot,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Finished {
        let (told, end) = oneshot::channel();
        let member = Member {
            lease: lease.clone(),
            outcome: outcome.clone(),
            retention,
            written: mem::take(&mut slot.ledger.written),
            told,
        };
        self.group
            .members
            .lock()
            .expect("nothing panics")
            .push(member);
        drop(slot);
        end.await.expect("the group tells everybody")
    }

    fn seated(&self, guard: OwnedMutexGuard<()>) -> Slot {
        Slot {
            ledger: Ledger::new(self),
            _guard: guard,
        }
    }
}
