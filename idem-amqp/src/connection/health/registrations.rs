//! What registrations and signs of life tell of the store: they do not wait for it, but come again.

use std::time::Duration;

use tokio::time::Instant;

use super::condition::Condition;

/// Whether the store answers those who ask about sessions.
#[derive(Debug, Default)]
pub(super) struct Registrations {
    store: Condition,
    /// When it did not answer last.
    failed: Option<Instant>,
}

/// Clients ask again much sooner. If none does there is nobody left who would be told.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(5);

impl Registrations {
    /// The store has answered, or its worker begins.
    pub(super) fn answered(&mut self, now: Instant) {
        self.store.recover(now);
    }

    /// It has not answered, for this reason.
    pub(super) fn failed(&mut self, now: Instant, error: String) {
        if self.is_forgotten(now) {
            self.store = Condition::well(now);
        }
        self.store.fail(now, Some(error));
        self.failed = Some(now);
    }

    /// Whether the store answers, as far as anybody still asks.
    pub(super) fn told(&self, now: Instant) -> Option<&Condition> {
        (!self.is_forgotten(now)).then_some(&self.store)
    }

    fn is_forgotten(&self, now: Instant) -> bool {
        self.failed
            .is_none_or(|failed| now - failed >= FORGOTTEN_AFTER)
    }
}
