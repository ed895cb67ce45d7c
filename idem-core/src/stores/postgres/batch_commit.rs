//! Transactions of batches: several messages in one call of their handler, completed by one statement.
//!
//! `transactions` opens and finishes them. What must stay true: all keys are completed, or none.

use sqlx::{PgConnection, PgTransaction};

use super::{
    PostgresStore,
    atomic::{PooledTransaction, read_commit_error},
    claims::AnswerWhen,
    exchange::Nonce,
    fault::unavailable,
    group::complete_all,
};
use crate::store::{BatchStore, Claim, ClaimRequest, Completion, Finished, StoreError};

impl PostgresStore {
    /// Opens a transaction for messages that are claimed already.
    pub(super) async fn open_batch(&self) -> Result<PooledTransaction, StoreError> {
        let opened = PooledTransaction::without_claim(&self.pool).await;
        opened.map_err(unavailable)
    }

    /// Writes the completions and commits, in one round trip.
    pub(super) async fn commit_batch(
        &self,
        open: PooledTransaction,
        completions: &[Completion<'_>],
    ) -> Result<Finished, StoreError> {
        let nonce = Nonce::new();
        let statements = complete_all(&self.sql, completions, self.clock.skew(), nonce, None);
        match self.end_own(open, statements, nonce).await? {
            Ok(()) => Ok(Finished::Committed),
            Err(error) => read_commit_error(error),
        }
    }
}

macro_rules! batch {
    ($tx:ty) => {
        impl BatchStore<$tx> for PostgresStore {
            const MOVES_MARKS: bool = true;

            async fn claim_for_batch(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
                self.claim_answered_when(request, AnswerWhen::Committed)
                    .await
            }
        }
    };
}

batch!(PgConnection);
batch!(PgTransaction<'static>);
