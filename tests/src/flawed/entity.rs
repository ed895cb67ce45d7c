//! Nothing is wrong with the calls of handlers that their own table records.

use std::error::Error;

use idem_amqp::{Entity, EntityError, EntityStore, Lease, StoreError};

use super::Flawed;

impl<Tx, S> EntityStore<Tx> for Flawed<S>
where
    S: EntityStore<Tx, Transaction: 'static> + Clone,
{
    async fn check(&self, constraint: &'static str, columns: usize) -> Result<(), EntityError> {
        self.store.check(constraint, columns).await
    }

    fn violates(&self, error: &(dyn Error + 'static), entity: &Entity) -> bool {
        self.store.violates(error, entity)
    }

    async fn is_recorded(
        &self,
        entity: &Entity,
        lease: Option<&Lease>,
    ) -> Result<bool, StoreError> {
        self.store.is_recorded(entity, lease).await
    }
}
