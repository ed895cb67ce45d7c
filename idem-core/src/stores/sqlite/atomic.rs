//! Atomic handlers: their writes and the completion in one transaction.

use std::time::Duration;

use sqlx::{Sqlite, SqliteConnection, Transaction};
use tokio::sync::OwnedSemaphorePermit;

use super::{SqliteStore, fault, row, transaction_pool::MayCommit};
use crate::{
    handler::Outcome,
    store::{
        Begun, Claim, ClaimRequest, Finish, Finished, Lease, Open, Store, StoreError,
        TransactionalStore, Write, rules::record::micros,
    },
};

/// Takes no lock. The savepoint is there to be missed if the handler ends the transaction.
const BEGIN: &str = "BEGIN DEFERRED; SAVEPOINT idem_handler";

/// A handler's open transaction. Dropping it rolls back.
#[derive(Debug)]
pub struct OpenTransaction {
    // In this order: the connection goes back before the next handler gets it.
    transaction: Transaction<'static, Sqlite>,
    may_commit: MayCommit,
    _permit: OwnedSemaphorePermit,
}

impl SqliteStore {
    async fn begin_open(
        &self,
        request: &ClaimRequest,
    ) -> Result<Begun<OpenTransaction>, StoreError> {
        // First the connection, so that no lease runs out while its owner waits for another handler.
        let permit = self.pool.permit().await;
        let (store, request) = (self.clone(), request.clone());
        // On a task of its own, because beginning a transaction must not be cancelled half-way.
        tokio::spawn(async move {
            // Then the transaction, which holds no lock yet: after the claim nothing can fail.
            let (transaction, may_commit) = store.pool.begin(BEGIN).await?;
            Ok(match store.claim(&request).await? {
                Claim::Acquired(lease) => Begun::Acquired(
                    lease,
                    OpenTransaction {
                        transaction,
                        may_commit,
                        _permit: permit,
                    },
                ),
                other => Begun::Not(other),
            })
        })
        .await
        .map_err(StoreError::unavailable)?
    }

    async fn finish_open(
        &self,
        open: OpenTransaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        if let Finish::Complete {
            lease,
            outcome,
            retention,
        } = finish
        {
            return self.commit_open(open, lease, outcome, retention).await;
        }
        roll_back(open.transaction).await;
        match finish {
            Finish::RollBack => Ok(Finished::RolledBack),
            _ => Err(finish.refused()),
        }
    }

    async fn commit_open(
        &self,
        mut open: OpenTransaction,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Finished, StoreError> {
        let completed = self
            .complete_open(&mut open.transaction, lease, outcome, retention)
            .await;
        match completed {
            Ok(1..) => {
                open.may_commit.allow();
                match open.transaction.commit().await {
                    Ok(()) => Ok(Finished::Committed),
                    Err(error) => refused(error),
                }
            }
            Ok(0) => {
                roll_back(open.transaction).await;
                Ok(Finished::Fenced)
            }
            Err(error) => {
                roll_back(open.transaction).await;
                refused(error)
            }
        }
    }

    /// The last statements before the commit; the number of rows says whether the lease held.
    async fn complete_open(
        &self,
        connection: &mut SqliteConnection,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<u64, sqlx::Error> {
        sqlx::query("RELEASE idem_handler")
            .execute(&mut *connection)
            .await?;
        let now = self.clock.now();
        let done = sqlx::query(self.sql.complete.clone())
            .bind(row::text(&lease.key))
            .bind(lease.token.get())
            .bind(outcome.as_bytes().to_vec())
            .bind(micros(retention))
            .bind(now)
            .bind(now.saturating_add(micros(retention)))
            .execute(connection)
            .await?;
        Ok(done.rows_affected())
    }
}

/// Ends the transaction. If that fails, there is none, or it dies with its connection: one that
/// is not clean is closed instead of being lent again.
async fn roll_back(transaction: Transaction<'static, Sqlite>) {
    if let Err(error) = transaction.rollback().await {
        tracing::debug!(%error, "a handler's transaction could not be rolled back");
    }
}

/// What an error means on the way to a commit: the attempt failed, or nobody knows.
fn refused(error: sqlx::Error) -> Result<Finished, StoreError> {
    if fault::is_refusal(&error) {
        Ok(Finished::Refused {
            error: error.to_string(),
        })
    } else {
        Err(StoreError::unavailable(error))
    }
}

macro_rules! lend {
    ($tx:ty, |$transaction:ident| $lent:expr) => {
        impl TransactionalStore<$tx> for SqliteStore {
            type Transaction = OpenTransaction;

            fn transactions(&self) -> usize {
                self.pool.connections()
            }

            fn time_limit(&self) -> Option<Duration> {
                None
            }

            async fn begin(
                &self,
                request: &ClaimRequest,
            ) -> Result<Begun<OpenTransaction>, StoreError> {
                self.begin_open(request).await
            }

            fn lend(open: &mut OpenTransaction) -> &mut $tx {
                let $transaction = &mut open.transaction;
                $lent
            }

            async fn is_alive(&self, _: &mut OpenTransaction) -> bool {
                // A file is not far away.
                true
            }

            async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
                self.extend(lease, by).await
            }

            async fn open(&self, opening: Open<'_>) -> Result<OpenTransaction, StoreError> {
                Err(opening.refused())
            }

            async fn finish(
                &self,
                open: OpenTransaction,
                finish: Finish<'_>,
            ) -> Result<Finished, StoreError> {
                self.finish_open(open, finish).await
            }
        }
    };
}

lend!(SqliteConnection, |transaction| &mut *transaction);
lend!(Transaction<'static, Sqlite>, |transaction| transaction);
