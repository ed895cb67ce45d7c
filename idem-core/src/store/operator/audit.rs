//! What a store notes down about an intervention.

use std::time::{Duration, SystemTime};

use super::{Action, Seen};

/// How long a note is kept at least: when a purge may remove it.
pub(crate) const AUDIT_LASTS: Duration = Duration::from_hours(90 * 24);

/// An intervention that took effect, as the store has noted it down.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEntry {
    /// When, by the store's clock.
    pub at: SystemTime,
    /// What was done.
    pub action: Action,
    /// Who did it, as [`Intervention::by`](super::Intervention::by) said.
    pub by: String,
    /// What the record was before; `None` if there was none.
    pub before: Option<Seen>,
}

impl AuditEntry {
    /// For store implementations: an entry as it was kept, its time in microseconds since 1970.
    pub fn new(micros: u64, action: Action, by: String, before: Option<Seen>) -> Self {
        let since = Duration::from_micros(micros);
        Self {
            at: SystemTime::UNIX_EPOCH + since,
            action,
            by,
            before,
        }
    }
}
