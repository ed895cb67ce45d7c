//! The calls of handlers that their own table records.

use std::{error::Error, time::Duration};

use idem_amqp::{Entity, EntityError, EntityStore, Finished, Lease, StoreError};

use super::{Call, Interfered};

impl<Tx, S: EntityStore<Tx>> EntityStore<Tx> for Interfered<S> {
    async fn check(&self, constraint: &'static str, columns: usize) -> Result<(), EntityError> {
        self.store.check(constraint, columns).await
    }

    async fn open(&self, entity: &Entity, wait: Duration) -> Result<Self::Transaction, StoreError> {
        self.store.open(entity, wait).await
    }

    fn violates(&self, error: &(dyn Error + 'static), entity: &Entity) -> bool {
        self.store.violates(error, entity)
    }

    async fn commit_entity(
        &self,
        transaction: Self::Transaction,
        entity: &Entity,
        lease: Option<&Lease>,
    ) -> Result<Finished, StoreError> {
        let done = self.store.commit_entity(transaction, entity, lease);
        self.interfere(Call::Complete, done).await
    }

    async fn is_recorded(
        &self,
        entity: &Entity,
        lease: Option<&Lease>,
    ) -> Result<bool, StoreError> {
        self.store.is_recorded(entity, lease).await
    }
}
