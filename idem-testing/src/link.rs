//! A process's link to the store, and what goes through it.

use std::sync::Arc;

use tokio::sync::watch;

/// A process's link to the store.
#[derive(Debug, Clone)]
pub(super) struct Link(Arc<watch::Sender<Condition>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Open,
    Frozen,
    Thawed,
    Cut,
}

impl Link {
    pub(super) fn open() -> Self {
        Self(Arc::new(watch::Sender::new(Condition::Open)))
    }

    /// Nothing goes through any more: its process is gone.
    pub(super) fn cut(&self) {
        self.0.send_replace(Condition::Cut);
    }

    /// Stops everything, if that was not done before.
    pub(super) fn freeze_once(&self) -> bool {
        self.0.send_if_modified(|condition| {
            let is_open = *condition == Condition::Open;
            if is_open {
                *condition = Condition::Frozen;
            }
            is_open
        })
    }

    pub(super) fn thaw(&self) {
        self.0.send_replace(Condition::Thawed);
    }

    /// Waits until something goes through: for ever, if it is cut.
    pub(super) async fn is_open(&self) {
        let mut condition = self.0.subscribe();
        let is_open =
            |condition: &Condition| matches!(condition, Condition::Open | Condition::Thawed);
        // It cannot close while `self` is there.
        let _ = condition.wait_for(is_open).await;
    }
}
