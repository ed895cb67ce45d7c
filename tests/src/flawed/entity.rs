//! Nothing is wrong with the calls of handlers that their own table records.

use std::error::Error;

use idem_amqp::{
    StoreError,
    handler::RecordedRow,
    store::{Lease, RecordedByError, RecordedByStore},
};

use super::Flawed;

impl<Tx, S> RecordedByStore<Tx> for Flawed<S>
where
    S: RecordedByStore<Tx, Transaction: 'static> + Clone,
{
    async fn check(&self, constraint: &'static str, columns: usize) -> Result<(), RecordedByError> {
        self.store.check(constraint, columns).await
    }

    fn violates(&self, error: &(dyn Error + 'static), entity: &RecordedRow) -> bool {
        self.store.violates(error, entity)
    }

    async fn is_recorded(
        &self,
        entity: &RecordedRow,
        lease: Option<&Lease>,
    ) -> Result<bool, StoreError> {
        self.store.is_recorded(entity, lease).await
    }
}
