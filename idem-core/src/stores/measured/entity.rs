//! Stores that record in a table of the handler's.

use std::{error::Error, time::Duration};

use tracing::{Instrument as _, Span};

use super::{Measured, answer::Answer};
use crate::telemetry::spans;
use crate::{
    handler::Entity,
    store::{EntityError, EntityStore, Finished, Lease, StoreError},
};

impl<Tx, S: EntityStore<Tx>> EntityStore<Tx> for Measured<S> {
    async fn check(&self, constraint: &'static str, columns: usize) -> Result<(), EntityError> {
        self.store.check(constraint, columns).await
    }

    async fn open(&self, entity: &Entity, wait: Duration) -> Result<S::Transaction, StoreError> {
        let asked = self.calls.begin.ask(Span::none());
        let answer = self.store.open(entity, wait).await.map(Opened);
        let answer = asked.answered(answer);
        answer.map(|Opened(transaction)| transaction)
    }

    fn violates(&self, error: &(dyn Error + 'static), entity: &Entity) -> bool {
        self.store.violates(error, entity)
    }

    async fn commit_entity(
        &self,
        transaction: S::Transaction,
        entity: &Entity,
        lease: Option<&Lease>,
    ) -> Result<Finished, StoreError> {
        let asked = self.calls.commit.ask(spans::record());
        let call = self.store.commit_entity(transaction, entity, lease);
        let answer = call.instrument(asked.span()).await;
        asked.answered(answer)
    }

    async fn is_recorded(
        &self,
        entity: &Entity,
        lease: Option<&Lease>,
    ) -> Result<bool, StoreError> {
        self.store.is_recorded(entity, lease).await
    }
}

/// An open transaction.
struct Opened<T>(T);

impl<T> Answer for Opened<T> {
    fn label(&self) -> &'static str {
        "opened"
    }
}
