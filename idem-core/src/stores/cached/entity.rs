//! What the handlers' own tables record is not remembered here: it is theirs to forget.

use std::error::Error;

use super::Cached;
use crate::{
    handler::Entity,
    store::{EntityError, EntityStore, Lease, StoreError},
};

// Not what somebody is looking for whose store names no constraints.
#[diagnostic::do_not_recommend]
impl<Tx, S: EntityStore<Tx>> EntityStore<Tx> for Cached<S> {
    async fn check(&self, constraint: &'static str, columns: usize) -> Result<(), EntityError> {
        self.store().check(constraint, columns).await
    }

    fn violates(&self, error: &(dyn Error + 'static), entity: &Entity) -> bool {
        self.store().violates(error, entity)
    }

    async fn is_recorded(
        &self,
        entity: &Entity,
        lease: Option<&Lease>,
    ) -> Result<bool, StoreError> {
        self.store().is_recorded(entity, lease).await
    }
}
