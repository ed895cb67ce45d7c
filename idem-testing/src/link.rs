//! A process's link to the store, and what goes through it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use idem_core::{handler::Outcome, message::Key, store::Completion};
use tokio::sync::watch;

/// A process's link to the store.
#[derive(Debug, Clone)]
pub(super) struct Link {
    condition: Arc<watch::Sender<Condition>>,
    /// What the store was told of messages that ended with others: one of them tells of all.
    completed_together: Arc<Mutex<HashMap<Key, Outcome>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Open,
    Frozen,
    Thawed,
    Cut,
}

impl Link {
    pub(super) fn open() -> Self {
        Self {
            condition: Arc::new(watch::Sender::new(Condition::Open)),
            completed_together: Arc::default(),
        }
    }

    /// Nothing goes through any more: its process is gone.
    pub(super) fn cut(&self) {
        self.condition.send_replace(Condition::Cut);
    }

    /// Stops everything, if that was not done before.
    pub(super) fn freeze_once(&self) -> bool {
        self.condition.send_if_modified(|condition| {
            let is_open = *condition == Condition::Open;
            if is_open {
                *condition = Condition::Frozen;
            }
            is_open
        })
    }

    pub(super) fn thaw(&self) {
        self.condition.send_replace(Condition::Thawed);
    }

    pub(super) fn complete_together(&self, completions: &[Completion<'_>]) {
        let told = completions
            .iter()
            .map(|it| (it.lease.key.clone(), it.outcome.clone()));
        self.completed_together().extend(told);
    }

    pub(super) fn completed_together(&self) -> MutexGuard<'_, HashMap<Key, Outcome>> {
        // An entry is never half written.
        self.completed_together
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something goes through: for ever, if it is cut.
    pub(super) async fn is_open(&self) {
        let mut condition = self.condition.subscribe();
        let is_open =
            |condition: &Condition| matches!(condition, Condition::Open | Condition::Thawed);
        // It cannot close while `self` is there.
        let _ = condition.wait_for(is_open).await;
    }
}
