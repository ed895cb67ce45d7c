//! Handlers whose success a row of their own records: the transaction is the store's, the way to it is the link.

use std::error::Error;

use idem_core::{
    handler::RecordedRow,
    store::{Lease, RecordedByError, RecordedByStore, StoreError},
};

use crate::FaultyStore;

// Not what somebody is looking for whose store cannot tell by a row what was handled.
#[diagnostic::do_not_recommend]
impl<Tx, S: RecordedByStore<Tx>> RecordedByStore<Tx> for FaultyStore<S> {
    async fn check(&self, constraint: &'static str, columns: usize) -> Result<(), RecordedByError> {
        self.undisturbed(self.store.check(constraint, columns))
            .await
    }

    fn violates(&self, error: &(dyn Error + 'static), entity: &RecordedRow) -> bool {
        self.store.violates(error, entity)
    }

    async fn is_recorded(
        &self,
        entity: &RecordedRow,
        lease: Option<&Lease>,
    ) -> Result<bool, StoreError> {
        self.undisturbed(self.store.is_recorded(entity, lease))
            .await
    }
}
