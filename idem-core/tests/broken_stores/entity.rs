//! A unique constraint beside the plain store's records.

use std::{error::Error, fmt};

use idem_core::{
    StoreError,
    handler::RecordedRow,
    store::{Finished, Lease, RecordedByError, RecordedByStore},
};

use crate::{flaw::Flaw, store::PlainStore, transaction::Ledger};

/// The only constraint, of one column.
pub(crate) const CONSTRAINT: &str = "entities_name_key";

/// The database's error.
#[derive(Debug)]
pub(crate) struct Violation;

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name is there")
    }
}

impl Error for Violation {}

impl Ledger {
    pub(crate) fn insert(&mut self, name: &str) -> Result<(), Violation> {
        let mut shared = self.store.shared();
        if shared.entities.contains(name) {
            return Err(Violation);
        }
        if self.store.has(Flaw::EntitiesAtOnce) {
            shared.entities.insert(name.to_owned());
        }
        drop(shared);
        self.entities.push(name.to_owned());
        Ok(())
    }
}

impl PlainStore {
    /// Commits, if the ledger has the entity.
    pub(crate) fn commit_entity(
        &self,
        ledger: Ledger,
        entity: &RecordedRow,
        lease: Option<&Lease>,
    ) -> Finished {
        let error = || "no entity".to_owned();
        let name = &entity.parts[0];
        if ledger.ended && !self.has(Flaw::BelievesTheHandler) {
            return Finished::Refused { error: error() };
        }
        let there = self.shared().entities.contains(name);
        if !ledger.entities.contains(name) {
            if there && !self.has(Flaw::TakesAnyRow) {
                return Finished::Violated { error: error() };
            }
            if !there && !self.has(Flaw::CommitsWithoutEntity) {
                return Finished::Refused { error: error() };
            }
        }
        let fenced = lease.is_some_and(|lease| !self.end_attempt(lease));
        if fenced && !self.has(Flaw::CommitsUnfenced) {
            return Finished::Fenced;
        }
        if !self.has(Flaw::LosesEntities) {
            self.shared().entities.extend(ledger.entities);
        }
        self.record_effects(ledger.written);
        Finished::Committed
    }

    /// Removes the record of this attempt; says whether it was there.
    fn end_attempt(&self, lease: &Lease) -> bool {
        let (mut shared, name) = (self.shared(), self.name(&lease.key));
        let record = shared.records.get(&name);
        let own = record.is_some_and(|record| record.token == lease.token.get());
        if !own && !self.has(Flaw::EndsOthersAttempts) {
            return false;
        }
        if !self.has(Flaw::KeepsAttempts) {
            shared.remove(&name);
        }
        own
    }
}

impl RecordedByStore<Ledger> for PlainStore {
    async fn check(&self, constraint: &'static str, columns: usize) -> Result<(), RecordedByError> {
        if (constraint, columns) == (CONSTRAINT, 1) || self.has(Flaw::AcceptsAnyConstraint) {
            return Ok(());
        }
        Err(RecordedByError::Unfit {
            constraint: constraint.to_owned(),
            reason: "there is none of so many columns".to_owned(),
        })
    }

    fn violates(&self, error: &(dyn Error + 'static), entity: &RecordedRow) -> bool {
        let ours = entity.constraint == CONSTRAINT || self.has(Flaw::ViolatedByAnyConstraint);
        self.has(Flaw::ViolatedByAnything) || ours && error.is::<Violation>()
    }

    async fn is_recorded(
        &self,
        entity: &RecordedRow,
        lease: Option<&Lease>,
    ) -> Result<bool, StoreError> {
        let found = self.shared().entities.contains(&entity.parts[0]);
        if let Some(lease) = lease.filter(|_| found || self.has(Flaw::LookingEndsAttempts)) {
            self.end_attempt(lease);
        }
        Ok(found)
    }
}
