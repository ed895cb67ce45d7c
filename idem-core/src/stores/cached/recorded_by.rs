//! What the handlers' own tables record is not remembered here: it is theirs to forget.

use std::error::Error;

use super::Cached;
use crate::{
    handler::RecordedRow,
    store::{Lease, RecordedByError, RecordedByStore, StoreError},
};

// Not what somebody is looking for whose store names no constraints.
#[diagnostic::do_not_recommend]
impl<Tx, S: RecordedByStore<Tx>> RecordedByStore<Tx> for Cached<S> {
    async fn check(&self, constraint: &'static str, columns: usize) -> Result<(), RecordedByError> {
        self.store().check(constraint, columns).await
    }

    fn violates(&self, error: &(dyn Error + 'static), entity: &RecordedRow) -> bool {
        self.store().violates(error, entity)
    }

    async fn is_recorded(
        &self,
        entity: &RecordedRow,
        lease: Option<&Lease>,
    ) -> Result<bool, StoreError> {
        self.store().is_recorded(entity, lease).await
    }
}
