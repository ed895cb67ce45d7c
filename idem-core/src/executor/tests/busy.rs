//! A store whose transactions have to be waited for.

use super::{
    doubles::{Transaction, TransactionalDouble, Transactions},
    *,
};
use crate::{
    handler::Outcome,
    store::{
        Completion, Finish, Finished, Look as _, StoreError,
        operator::{Intervened, Intervention, KeyState, OperatorStore as _},
    },
    stores::MemoryStore,
};

/// Transactions that have to be waited for. Groups are all rolled back, unless it is said that they commit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waits {
    wait: Duration,
    are_claimed_ahead: bool,
    groups_commit: bool,
    are_down: bool,
}

pub(super) type Busy = TransactionalDouble<MemoryStore, Waits>;

impl Busy {
    pub(super) fn new(store: &MemoryStore, wait: Duration) -> Self {
        let transactions = Waits {
            wait,
            are_claimed_ahead: false,
            groups_commit: false,
            are_down: false,
        };
        Self {
            store: store.clone(),
            transactions,
        }
    }

    /// Messages claim while they wait.
    pub(super) fn claiming_ahead(mut self) -> Self {
        self.transactions.are_claimed_ahead = true;
        self
    }

    /// Groups commit, after as long as a transaction is waited for.
    pub(super) fn committing_groups(mut self) -> Self {
        self.transactions.groups_commit = true;
        self
    }

    /// No transaction can be opened.
    pub(super) fn down(mut self) -> Self {
        self.transactions.are_down = true;
        self
    }
}

impl Transactions for Waits {
    fn are_claimed_ahead(&self) -> bool {
        self.are_claimed_ahead
    }

    async fn opened(&self) -> Result<(), StoreError> {
        sleep(self.wait).await;
        if self.are_down {
            return Err(StoreError::unavailable("no connection"));
        }
        Ok(())
    }

    async fn finish<S: Store>(
        &self,
        store: &S,
        transaction: Transaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        let Finish::Complete(Completion {
            lease,
            outcome,
            retention,
            ..
        }) = finish
        else {
            return Ok(Finished::RolledBack);
        };
        let is_slot = transaction.lease.is_none();
        if is_slot {
            if !self.groups_commit {
                return Ok(Finished::RolledBack);
            }
            sleep(self.wait).await;
        }
        Ok(match store.complete(lease, outcome, retention).await? {
            Write::Applied => Finished::Committed,
            Write::Fenced => Finished::Fenced,
        })
    }
}

/// Claims the key, and fails.
pub(super) async fn fail_once(store: &MemoryStore, key: Key) {
    let request = ClaimRequest::new(key, &Policy::DEFAULT);
    let Ok(Claim::Acquired(lease)) = store.claim(&request).await else {
        panic!("the key is free");
    };
    let write = store.release(&lease, &Release::failed("no")).await;
    assert_eq!(write.unwrap(), Write::Applied);
}

/// Whether somebody has claimed the key, after one lease.
pub(super) async fn is_claimed_later(store: &MemoryStore, key: &Key) -> bool {
    sleep(LEASE).await;
    let known = store.look(key).await.unwrap();
    known.is_some_and(|known| known.record.state() == KeyState::InProgress)
}

/// What an operator does while the message waits.
pub(super) async fn complete_by_hand_later(store: &MemoryStore) {
    sleep(LEASE).await;
    let known = store.look(&key()).await.unwrap();
    let seen = known.map(|known| known.record.seen());
    let outcome = Outcome::new("7");
    let complete = Intervention::complete(key(), seen, "operator@ops-1", outcome, LEASE * 100);
    let intervened = store.intervene(&complete).await.unwrap();
    assert_eq!(intervened, Intervened::Applied);
}
