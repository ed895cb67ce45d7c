//! Transactions on connections of the pool: begun, kept, committed with a completion, rolled back.
//!
//! `transactions` makes of them what handlers write through; `group`, `batch_commit` and `recorded_by` take theirs
//! here, too. `transaction_pool` says who gets a connection, `transaction_end` how it ends, `statement` what is sent
//! for it.
//!
//! What must stay true:
//!
//! - No claim is made here before its handler has a connection, or a permit to wait for one.
//! - Nothing of the handler is sent before its claim is committed.
//! - A connection goes back to the pool only if all that the handler may have left behind is gone.

use std::time::Duration;

use sqlx::{PgConnection, PgTransaction};

use super::{
    PostgresStore,
    claims::AnswerWhen,
    exchange::Nonce,
    fault::{Fault, unavailable},
    transaction_pool::{CheckedOut, TransactionPool},
};
use crate::{
    handler::Outgoing,
    store::{
        Begun, Claim, ClaimRequest, Completion, Finished, Lease, MarkMove, Opening, StoreError,
        Write,
    },
};

mod statement;
mod transaction_end;

pub(super) use statement::{completion, extension};
use transaction_end::read_move_error;
pub(super) use transaction_end::{Connection, OVERDUE, commit, is_fenced, read_commit_error};

/// An open transaction on a connection of the pool. Dropping it closes the connection, which rolls back.
pub(super) struct PooledTransaction {
    // Dropped in this order: the connection is on its way back to the driver when the next handler gets the right to
    // it.
    transaction: PgTransaction<'static>,
    /// The right to the connection. Nobody else gets it before this is dropped.
    checked_out: CheckedOut,
}

impl PooledTransaction {
    /// Begins one that several messages share, with these statements behind the `BEGIN`.
    pub(super) async fn of_group(pool: &TransactionPool, begin: &str) -> Result<Self, Fault> {
        let mut checked_out = pool.check_out().await;
        let transaction = checked_out.begin_group(begin).await?;
        Ok(Self {
            transaction,
            checked_out,
        })
    }

    /// Begins one for messages that are claimed already.
    pub(super) async fn without_claim(pool: &TransactionPool) -> Result<Self, Fault> {
        let mut checked_out = pool.check_out().await;
        let transaction = checked_out.begin().await?;
        Ok(Self {
            transaction,
            checked_out,
        })
    }

    /// Gives the connection back, to be lent again. Only after a clean-up that was answered, or if nothing was done on
    /// it: by this the store vouches for it.
    pub(super) fn give_back(self) {
        self.checked_out.mark_clean();
    }

    /// Hands the connection on, with the transaction that was begun behind the end of the last one: whoever waits for
    /// it needs no round trip to begin.
    fn hand_on(self) {
        self.checked_out.hand_on(self.transaction);
    }

    /// Leaves a connection alone that does not answer. It is closed, and the next handler connects anew at once instead
    /// of waiting for that.
    pub(super) fn give_up(mut self) {
        self.checked_out.change_connection();
    }

    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.transaction
    }

    pub(super) fn transaction(&mut self) -> &mut PgTransaction<'static> {
        &mut self.transaction
    }
}

impl std::fmt::Debug for PooledTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PooledTransaction").finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Claims, and begins a transaction at the same time. The claim commits by itself, on a connection of the store's
    /// own, so the attempt is counted whatever the handler does.
    pub(super) async fn begin_open<T: From<PooledTransaction>>(
        &self,
        request: &ClaimRequest,
    ) -> Result<Begun<T>, StoreError> {
        // First the connection, so that no lease runs out while its owner waits for another handler.
        let mut checked_out = self.pool.check_out().await;
        // The two at once, which saves a round trip: `BEGIN` sees no data, and no statement that does is sent before
        // the claim is committed. The claim need not be on the disk by then, because the completion's commit follows it
        // there.
        let (begun, claim) = tokio::join!(
            checked_out.begin(),
            self.claim_answered_when(request, AnswerWhen::Committed)
        );
        let open = begun.map(|transaction| PooledTransaction {
            transaction,
            checked_out,
        });
        match (claim, open) {
            (Ok(Claim::Acquired(lease)), Ok(open)) => Ok(Begun::Acquired(lease, open.into())),
            // No transaction. The claim stays: the same owner has its key back when it asks again.
            (Ok(Claim::Acquired(_)), Err(fault)) => Err(fault.unavailable()),
            (Ok(answer), open) => {
                // Nothing runs, and nothing was done on the connection: it can be lent as it is.
                if let Ok(open) = open {
                    open.give_back();
                }
                Ok(Begun::Not(answer))
            }
            // What is wrong with the claim's session may be wrong with this one: it is closed.
            (Err(error), _) => Err(error),
        }
    }

    /// Claims while all connections are in use; the transaction is begun when there is one. Claims that wait for a
    /// permit are let in together, and share a statement.
    pub(super) async fn claim_open_ahead<T: From<PooledTransaction>>(
        &self,
        request: &ClaimRequest,
    ) -> Result<Begun<Opening<'_, T>>, StoreError> {
        // First the permit: each message that waits with a claim loses an attempt if the process is killed.
        let permit = self.pool.permit_to_claim().await;
        let lease = match self
            .claim_answered_when(request, AnswerWhen::Committed)
            .await?
        {
            Claim::Acquired(lease) => lease,
            answer => return Ok(Begun::Not(answer)),
        };
        let opening = async move {
            let mut checked_out = self.pool.check_out().await;
            // It waits no longer, so another one may claim.
            drop(permit);
            let begun = checked_out.begin().await;
            let transaction = begun.map_err(unavailable)?;
            let open = PooledTransaction {
                transaction,
                checked_out,
            };
            Ok(open.into())
        };
        Ok(Begun::Acquired(lease, Box::pin(opening)))
    }

    /// Begins a transaction without a claim, whose statements wait for a lock for at most so long.
    pub(super) async fn open_unclaimed(
        &self,
        wait: Duration,
    ) -> Result<PooledTransaction, StoreError> {
        let mut checked_out = self.pool.check_out().await;
        let begun = checked_out.begin_waiting(wait).await;
        let transaction = begun.map_err(unavailable)?;
        Ok(PooledTransaction {
            transaction,
            checked_out,
        })
    }

    /// Writes the completion and commits.
    pub(super) async fn commit_alone(
        &self,
        open: PooledTransaction,
        completion: Completion<'_>,
    ) -> Result<Finished, StoreError> {
        let skew = self.clock.skew();
        let nonce = Nonce::new();
        let statement = statement::completion(&self.sql, &completion, skew, nonce);
        match self.end_own(open, statement, nonce).await? {
            Ok(()) => Ok(Finished::Committed),
            // The answer says that it failed, or nothing. Which of the two is read from the error.
            Err(error) if completion.mark.is_some() => read_move_error(error),
            Err(error) => read_commit_error(error),
        }
    }

    /// Moves the mark of a stream and commits.
    pub(super) async fn commit_moving(
        &self,
        open: PooledTransaction,
        mark: MarkMove<'_>,
        outgoing: &[Outgoing],
    ) -> Result<Finished, StoreError> {
        let skew = self.clock.skew();
        let nonce = Nonce::new();
        let statements = statement::move_mark(&self.sql, mark, outgoing, skew, nonce);
        match self.end_own(open, statements, nonce).await? {
            Ok(()) => Ok(Finished::Committed),
            Err(error) => read_move_error(error),
        }
    }

    /// Sends what ends a transaction with a commit. If somebody waits for the connection, the `BEGIN` of its
    /// transaction goes along.
    ///
    /// The inner error: the server objected, or the connection ended, before the commit was answered.
    pub(super) async fn end_own(
        &self,
        mut open: PooledTransaction,
        mut statements: String,
        nonce: Nonce,
    ) -> Result<Result<(), sqlx::Error>, StoreError> {
        let next_begin = open.checked_out.next_begin();
        let goes_on = next_begin.is_some();
        // Behind the commit and the clean-up: an error before it keeps it from being reached.
        statements.push_str(&next_begin.unwrap_or_default());
        let ended =
            async { Ok(transaction_end::commit(open.connection(), statements, nonce).await) };
        match self.address.within_timeout(ended).await {
            Ok((ended, transaction_end::Connection::Clean)) => {
                if goes_on {
                    open.hand_on();
                } else {
                    open.give_back();
                }
                Ok(ended)
            }
            // Nobody vouches for the connection, so it is closed when `open` is dropped here.
            Ok((ended, transaction_end::Connection::Unknown)) => Ok(ended),
            Err(fault) => {
                // No answer in time: whether it was committed, nobody knows.
                open.give_up();
                Err(fault.unavailable())
            }
        }
    }

    /// Rolls the handler's writes back and cleans up. If the server does not answer, the connection is closed, and what
    /// was written goes with it.
    pub(super) async fn roll_back_open(&self, mut open: PooledTransaction) {
        let rolled_back = transaction_end::roll_back(open.connection(), &self.sql.roll_back);
        match self.address.within_timeout(rolled_back).await {
            Ok(()) => open.give_back(),
            Err(error) => {
                tracing::debug!(%error, "a handler's transaction is rolled back with its connection");
                open.give_up();
            }
        }
    }

    /// Whether the server still answers, and writes.
    pub(super) async fn is_writable(&self, connection: &mut PgConnection) -> bool {
        let answer = self
            .address
            .within_timeout(transaction_end::is_writable(connection))
            .await;
        // An error or no answer: it cannot be blamed on the handler.
        answer.unwrap_or(false)
    }

    /// Extends the lease of a claim whose transaction is open, or is waited for. It is written beside the record: a
    /// transaction at `REPEATABLE READ` could not complete a record that was written since its snapshot. All heartbeats
    /// of this kind share a connection.
    pub(super) async fn extend_transaction(
        &self,
        lease: &Lease,
        by: Duration,
    ) -> Result<Write, StoreError> {
        let statement = || extension(&self.sql, lease, by, self.clock.skew());
        let rows = self.heartbeats.lock().await.fetch(statement).await;
        let rows = rows.map_err(unavailable)?;
        // No row was written: the record is not in progress under this token.
        Ok(if rows.is_empty() {
            Write::Fenced
        } else {
            Write::Applied
        })
    }
}

#[cfg(test)]
pub(super) mod tests;
