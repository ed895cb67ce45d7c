//! What handlers write through, opened and finished in one way whatever it is for.
//!
//! The executor calls it through `TransactionalStore`. This file decides nothing: it hands each opening and each finish
//! to whom it concerns, `atomic` (transactions on connections of the pool), `batch_commit`, `group` (slots) or
//! `recorded_by`.
//!
//! What must stay true:
//!
//! - A finish that does not fit the transaction commits nothing.
//! - What is dropped without a finish is rolled back.

use std::{fmt, time::Duration};

use sqlx::{PgConnection, PgTransaction};

use super::{PostgresStore, atomic::PooledTransaction, group::Slot};
use crate::store::{
    Begun, ClaimRequest, Finish, Finished, Lease, Open, Opening, StoreError, TransactionalStore,
    Write, outbox::SharedOutbox,
};

/// A handler's open transaction. Dropping it closes its connection, which rolls back; or it is a slot in a group,
/// which rolls back what was written since it was taken.
pub struct OpenTransaction(Kind);

/// Whose the transaction is. The executor need not know.
enum Kind {
    /// One message's, a batch's, or that of a message that its own table records.
    Alone(PooledTransaction),
    /// A group's, for as long as the handler has its slot.
    Shared(Slot),
}

impl OpenTransaction {
    /// What the handler writes through. In a group, it writes in the transaction of all.
    fn transaction(&mut self) -> &mut PgTransaction<'static> {
        match &mut self.0 {
            Kind::Alone(open) => open.transaction(),
            Kind::Shared(slot) => slot.transaction(),
        }
    }
}

impl From<PooledTransaction> for OpenTransaction {
    fn from(open: PooledTransaction) -> Self {
        Self(Kind::Alone(open))
    }
}

impl From<Slot> for OpenTransaction {
    fn from(slot: Slot) -> Self {
        Self(Kind::Shared(slot))
    }
}

impl fmt::Debug for OpenTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTransaction").finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens what is not opened together with its claim. Each waits for a connection, or for a slot.
    async fn open_transaction(&self, opening: Open<'_>) -> Result<OpenTransaction, StoreError> {
        Ok(match opening {
            Open::Group { handler, size } => self.take_slot(handler, size).await?.into(),
            Open::Batch => self.open_batch().await?.into(),
            Open::Recorded { entity, wait } => self.open_for(entity, wait).await?.into(),
        })
    }

    async fn finish_transaction(
        &self,
        open: OpenTransaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        match open.0 {
            Kind::Alone(open) => self.finish_alone(open, finish).await,
            Kind::Shared(slot) => finish_shared(slot, finish).await,
        }
    }

    /// Ends a transaction that has a connection of the pool to itself.
    async fn finish_alone(
        &self,
        open: PooledTransaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        match finish {
            Finish::Complete(completion) => self.commit_alone(open, completion).await,
            // A mark stands with one completion, or alone.
            Finish::CompleteAll(completions) if completions.iter().any(|it| it.mark.is_some()) => {
                self.roll_back_open(open).await;
                Err(finish.refused())
            }
            Finish::CompleteAll(completions) => self.commit_batch(open, completions).await,
            Finish::MoveMark { mark, outgoing } => self.commit_moving(open, mark, outgoing).await,
            Finish::Record { entity, lease } => self.commit_for(open, entity, lease).await,
            Finish::RollBack => {
                // It tells nothing: one that cannot be rolled back goes with its connection.
                self.roll_back_open(open).await;
                Ok(Finished::RolledBack)
            }
        }
    }
}

/// Leaves a slot, or gives it up: one that is not left is dropped, and its group undoes what was written since it was
/// taken.
async fn finish_shared(slot: Slot, finish: Finish<'_>) -> Result<Finished, StoreError> {
    match finish {
        // A group's completions are one statement, which moves no mark.
        Finish::Complete(completion) if completion.mark.is_some() => Err(finish.refused()),
        Finish::Complete(completion) => slot.leave(completion).await,
        // By its drop, at the end of this function. The group does it before the next slot is given.
        Finish::RollBack => Ok(Finished::RolledBack),
        Finish::CompleteAll(_) | Finish::MoveMark { .. } | Finish::Record { .. } => {
            Err(finish.refused())
        }
    }
}

// Written once, for two types that a handler may borrow: a connection, and a transaction. It is the same transaction in
// both cases.
macro_rules! transactional_store {
    ($tx:ty, |$transaction:ident| $lent:expr) => {
        impl TransactionalStore<$tx> for PostgresStore {
            type Transaction = OpenTransaction;

            fn transactions(&self) -> usize {
                self.pool.connections()
            }

            fn time_limit(&self) -> Option<Duration> {
                // A link that falls silent would otherwise keep the handler's connection for ever.
                Some(self.transaction_timeout)
            }

            async fn begin(
                &self,
                request: &ClaimRequest,
            ) -> Result<Begun<OpenTransaction>, StoreError> {
                self.begin_open(request).await
            }

            fn is_busy(&self) -> bool {
                self.pool.is_busy()
            }

            async fn claim_ahead(
                &self,
                request: &ClaimRequest,
            ) -> Result<Begun<Opening<'_, OpenTransaction>>, StoreError> {
                self.claim_open_ahead(request).await
            }

            fn outbox(&self) -> Option<SharedOutbox> {
                Some(PostgresStore::outbox(self))
            }

            fn lend(open: &mut OpenTransaction) -> &mut $tx {
                let $transaction = open.transaction();
                $lent
            }

            async fn is_alive(&self, open: &mut OpenTransaction) -> bool {
                self.is_writable(open.transaction()).await
            }

            async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
                // From another connection: the handler uses its own, and has locks there.
                self.extend_transaction(lease, by).await
            }

            async fn open(&self, opening: Open<'_>) -> Result<OpenTransaction, StoreError> {
                self.open_transaction(opening).await
            }

            async fn finish(
                &self,
                open: OpenTransaction,
                finish: Finish<'_>,
            ) -> Result<Finished, StoreError> {
                self.finish_transaction(open, finish).await
            }
        }
    };
}

transactional_store!(PgConnection, |transaction| &mut *transaction);
transactional_store!(PgTransaction<'static>, |transaction| transaction);
