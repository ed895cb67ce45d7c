//! How many keys there are.

use std::collections::BTreeMap;

use super::{Condition, FailedReason, KeyRecord};

/// How many keys of one scope a store keeps, by their state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeCounts {
    /// The handler's durable name.
    pub scope: String,
    /// Keys that a worker holds, even if that worker is gone.
    pub in_progress: u64,
    /// Keys in progress whose lease has run out.
    pub overdue: u64,
    /// Keys that are completed.
    pub completed: u64,
    /// Keys that are free for their next attempt, or quarantined.
    pub failed: u64,
    /// Failed keys that are quarantined.
    pub quarantined: u64,
    /// Keys in any state whose retention has ended, and that are not purged.
    pub forgotten: u64,
}

impl ScopeCounts {
    /// No keys of this scope.
    pub fn new(scope: impl Into<String>) -> Self {
        Self {
            scope: scope.into(),
            ..Self::default()
        }
    }

    /// Counts one key of the scope.
    pub fn count(&mut self, record: &KeyRecord) {
        match &record.condition {
            Condition::InProgress { lease_remaining } => {
                self.in_progress += 1;
                self.overdue += u64::from(lease_remaining.is_zero());
            }
            Condition::Completed { .. } => self.completed += 1,
            Condition::Failed { reason, .. } => {
                self.failed += 1;
                self.quarantined += u64::from(*reason == FailedReason::Quarantined);
            }
        }
        self.forgotten += u64::from(record.remembered_for.is_zero());
    }

    /// Both counts as one, in the order of their scopes' names.
    pub fn sum(one: Vec<Self>, other: Vec<Self>) -> Vec<Self> {
        let mut scopes: BTreeMap<String, Self> = BTreeMap::new();
        for counts in one.into_iter().chain(other) {
            let scope = scopes
                .entry(counts.scope.clone())
                .or_insert_with(|| Self::new(&counts.scope));
            scope.in_progress += counts.in_progress;
            scope.overdue += counts.overdue;
            scope.completed += counts.completed;
            scope.failed += counts.failed;
            scope.quarantined += counts.quarantined;
            scope.forgotten += counts.forgotten;
        }
        scopes.into_values().collect()
    }

    /// The counts of all these keys, in the order of their scopes' names: for stores that have to
    /// read every record for it.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a KeyRecord>) -> Vec<Self> {
        let mut scopes = BTreeMap::new();
        for record in records {
            let scope = record.key.scope();
            let counts = scopes
                .entry(scope.to_owned())
                .or_insert_with(|| Self::new(scope));
            counts.count(record);
        }
        scopes.into_values().collect()
    }
}
