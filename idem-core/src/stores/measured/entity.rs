//! Stores that record in a table of the handler's.

use std::error::Error;

use super::Measured;
use crate::{
    handler::Entity,
    store::{EntityError, EntityStore, Lease, StoreError},
};

impl<Tx, S: EntityStore<Tx>> EntityStore<Tx> for Measured<S> {
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
