//! Atomic handlers: their writes and the completion in one transaction; in a batch, the completions of several
//! messages.
//!
//! The executor calls it through `TransactionalStore` and `BatchStore`; `recorded_by` opens and commits here, too.
//! Claims and all that is not the handler's go through the one `writer`; only the handler's transaction has a
//! connection of its own, from `transaction_pool`. SQLite has one write lock for the file, and `write_queue` says who
//! takes it next.
//!
//! What must stay true:
//!
//! - A handler's writes are committed only with the completion, under the current lease.
//! - Nobody is told that they are before they are on the disk.
//! - A connection is lent again only if its last handler has left nothing on it.

use std::time::Duration;

use sqlx::{Row as _, Sqlite, SqliteConnection, Transaction};
use tokio::sync::OwnedSemaphorePermit;

use super::{SqliteStore, fault, outbox, row::hex, transaction_pool, write_queue::Place};
use crate::{
    futures::FutureExt as _,
    handler::Outgoing,
    store::{
        BatchStore, Begun, Claim, ClaimRequest, Completion, Finish, Finished, Lease, MarkMove,
        Open, Opening, Store, StoreError, TransactionalStore, Write, outbox::SharedOutbox,
        rules::record::micros,
    },
    stores::rows::number,
};

/// A handler's open transaction. Dropping it rolls back.
#[derive(Debug)]
pub struct OpenTransaction {
    // Dropped in this order: the connection goes back before the next handler gets the right to one.
    open: transaction_pool::Open,
    /// Its turn to write; `None` if handlers go side by side at the moment.
    place: Option<Place>,
    /// The right to a connection.
    permit: OwnedSemaphorePermit,
}

impl SqliteStore {
    /// Claims, and begins the transaction: two steps, each with a commit or a lock of its own.
    async fn begin_open(
        &self,
        request: &ClaimRequest,
    ) -> Result<Begun<OpenTransaction>, StoreError> {
        // First the permit, so that no lease runs out while its owner waits for another handler.
        let permit = self.pool.permit().await;
        // On the disk before it is told: a message that was delivered before comes this way, and may be what takes the
        // whole machine down. Its attempts have to count.
        Ok(match self.claim(request).await? {
            // The same owner has its key back, should this fail.
            Claim::Acquired(lease) => Begun::Acquired(lease, self.open_with(permit).await?),
            answer => Begun::Not(answer),
        })
    }

    /// Claims while all connections are in use; the transaction is begun when there is one. Claims that wait share a
    /// commit. Those without a session or a sequence are answered before it is on the disk: whatever is done under such
    /// a lease is committed behind it in the same log.
    async fn claim_open_ahead(
        &self,
        request: &ClaimRequest,
    ) -> Result<Begun<Opening<'_, OpenTransaction>>, StoreError> {
        // First the permit: each message that waits with a claim loses an attempt if the process is killed.
        let claim_permit = self.pool.permit_to_claim().await;
        let lease = match self.claim_atomic(request).await? {
            Claim::Acquired(lease) => lease,
            answer => return Ok(Begun::Not(answer)),
        };
        let opening = async move {
            let permit = self.pool.permit().await;
            // It has a connection now, so another one may claim.
            drop(claim_permit);
            self.open_with(permit).await
        };
        Ok(Begun::Acquired(lease, opening.boxed()))
    }

    /// Waits until it is time for the handler to write, and begins its transaction.
    async fn open_with(&self, permit: OwnedSemaphorePermit) -> Result<OpenTransaction, StoreError> {
        // In this order: handlers that go one after the other all have the connection used last, which has the pages
        // that they need.
        let place = self.write_queue.enter_with_handler().await;
        Ok(OpenTransaction {
            open: self.pool.begin().await?,
            place,
            permit,
        })
    }

    async fn finish_open(
        &self,
        open: OpenTransaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        match finish {
            Finish::Complete(completion) => {
                self.commit_open(open, Last::Completions(&[completion]))
                    .await
            }
            // A mark stands with one completion, or alone.
            Finish::CompleteAll(completions) if completions.iter().any(|it| it.mark.is_some()) => {
                roll_back(open).await;
                Err(finish.refused())
            }
            Finish::CompleteAll(completions) => {
                self.commit_open(open, Last::Completions(completions)).await
            }
            Finish::MoveMark { mark, outgoing } => {
                self.commit_open(open, Last::Mark(mark, outgoing)).await
            }
            Finish::Record { entity, lease } => self.finish_recorded(open, entity, lease).await,
            Finish::RollBack => {
                roll_back(open).await;
                Ok(Finished::RolledBack)
            }
        }
    }

    /// Commits the handler's writes with what is written last, and returns when they are on the disk. Whatever else
    /// comes of it, the connection is given back clean or closed.
    async fn commit_open(
        &self,
        lent: OpenTransaction,
        last: Last<'_>,
    ) -> Result<Finished, StoreError> {
        let OpenTransaction {
            mut open,
            place,
            permit,
        } = lent;
        // From here on the hook lets one commit pass, which is to be the store's. Until now it has refused each that
        // the handler may have tried.
        open.commit.allow();
        let committed = self.write_and_commit(&mut open.transaction, last).await;
        // And no further one: what the handler left running must not commit by itself.
        let was_begun = open.commit.has_allowed();
        let ended = match committed {
            Ok(is_clean) => {
                // If the hook was not asked, the handler has set another one. A transaction that begins anew sets it
                // back.
                if is_clean && was_begun {
                    self.pool.give_back(open);
                } else {
                    // Before the next one has the permit.
                    drop(open);
                }
                Ok(Finished::Committed)
            }
            Err(error) => {
                // First, so that the write lock is free.
                undo(open.transaction).await;
                if fault::is_failed_sync(&error) {
                    // What was committed before may be lost as well: nobody is told any more that anything is durable.
                    self.log.lose(error.to_string());
                }
                match error {
                    // SQLite had no more objections: the disk had, and who knows how far it came.
                    error if was_begun => Err(fault::unavailable(error)),
                    // SQLite has not asked the hook, so it did not come to the commit.
                    error => not_committed(error),
                }
            }
        };
        // The next handler need not wait for the disk. It gets the connection that was just given back.
        drop((place, permit));
        // Committed is not durable: connections of handlers do not wait for the disk. Without this wait a message could
        // be acknowledged whose effect a power cut takes away.
        if matches!(ended, Ok(Finished::Committed)) {
            // With other handlers at work their commits are about to follow, and share one sync.
            let synced = if self.pool.is_in_use() {
                self.log.synced_with_others().await
            } else {
                self.log.synced().await
            };
            synced.map_err(fault::unavailable)?;
        }
        ended
    }

    /// A transaction without a claim of its own: for a batch, whose messages are claimed already, and for a handler
    /// whose own table records its messages.
    pub(super) async fn open_unclaimed(&self) -> Result<OpenTransaction, StoreError> {
        self.open_with(self.pool.permit().await).await
    }

    /// Commits what a row of the handler's records.
    pub(super) async fn commit_recorded(
        &self,
        lent: OpenTransaction,
    ) -> Result<Finished, StoreError> {
        self.commit_open(lent, Last::Recorded).await
    }

    /// Writes what is last and commits, in one text: an error in it keeps the commit from being reached. Behind the
    /// commit it begins the transaction of the next handler. `Ok` says whether the connection can be lent again, in
    /// that transaction.
    async fn write_and_commit(
        &self,
        connection: &mut SqliteConnection,
        ending: Last<'_>,
    ) -> Result<bool, sqlx::Error> {
        let now = self.clock.now();
        let finish = match ending {
            Last::Recorded => sqlx::query(self.sql.commit_recorded.clone()),
            Last::Mark(mark, outgoing) => sqlx::query(self.sql.streams.finish.clone())
                .bind(moved(mark))
                .bind(now)
                .bind(outbox::list(outgoing, now).unwrap_or_else(nothing)),
            Last::Completions(completions) => {
                let list = list(completions, now);
                let sent = outbox::sent(completions, now);
                let mark = completions.iter().find_map(|it| it.mark);
                match (mark, sent) {
                    (None, None) => sqlx::query(self.sql.finish.clone()).bind(list).bind(now),
                    (None, Some(sent)) => sqlx::query(self.sql.finish_publishing.clone())
                        .bind(list)
                        .bind(now)
                        .bind(sent),
                    (Some(mark), sent) => sqlx::query(self.sql.finish_moving.clone())
                        .bind(list)
                        .bind(now)
                        .bind(sent.unwrap_or_else(nothing))
                        .bind(moved(mark)),
                }
            }
        };
        // The text gives one row: how many databases there are beside the main one, temporary ones included.
        let rows = finish.fetch_all(connection).await?;
        let further: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        Ok(further == 0)
    }
}

/// What is written last in a transaction.
#[derive(Clone, Copy)]
enum Last<'a> {
    /// One of them may move a mark, and then it is the only one.
    Completions(&'a [Completion<'a>]),
    /// The move of a mark, with what was published.
    Mark(MarkMove<'a>, &'a [Outgoing]),
    /// Nothing: a row of the handler's is the record.
    Recorded,
}

impl OpenTransaction {
    /// What the handler writes through.
    pub(super) fn transaction(&mut self) -> &mut SqliteConnection {
        &mut self.open.transaction
    }
}

/// The completions as `finish.sql` takes them: one JSON text, so that one statement writes them all, or none. Outcomes
/// are bytes, which JSON cannot hold: hence the hexadecimal digits.
fn list(completions: &[Completion<'_>], now: i64) -> String {
    let list = completions.iter().map(|done| {
        let retention = micros(done.retention);
        let (key, token) = (done.lease.key.as_str(), done.lease.token.get());
        let outcome = hex(done.outcome.as_bytes());
        (
            key,
            token,
            outcome,
            retention,
            now.saturating_add(retention),
        )
    });
    let list: Vec<_> = list.collect();
    serde_json::to_string(&list).expect("texts and numbers can be written as JSON")
}

/// The mark as `streams/move.sql` takes it.
fn moved(mark: MarkMove<'_>) -> String {
    let MarkMove { lease, from, to } = mark;
    let (stream, token) = (lease.stream.as_str(), lease.token.get());
    let moved = (stream, token, number(from), number(to));
    serde_json::to_string(&moved).expect("texts and numbers can be written as JSON")
}

/// What was published where nothing was.
fn nothing() -> String {
    "[]".to_owned()
}

/// Ends the transaction, and lets the next handler have its place.
pub(super) async fn roll_back(lent: OpenTransaction) {
    let OpenTransaction { open, .. } = lent;
    undo(open.transaction).await;
}

/// If it fails, there is no transaction, or it dies with its connection: one that is not clean is closed instead of
/// being lent again.
async fn undo(transaction: Transaction<'static, Sqlite>) {
    if let Err(error) = transaction.rollback().await {
        tracing::debug!(%error, "a handler's transaction could not be rolled back");
    }
}

/// Whether it is the error that `finish.sql` makes when the lease is not the current one. Outside of triggers a
/// statement cannot fail with words of its own, so that text has SQLite read a word as JSON that is none.
fn is_fenced(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    error.is_some_and(|error| error.message() == "malformed JSON")
}

/// What an error means on the way to a commit: it is fenced, the attempt failed, or nobody knows.
pub(super) fn not_committed(error: sqlx::Error) -> Result<Finished, StoreError> {
    if is_fenced(&error) {
        Ok(Finished::Fenced)
    } else if fault::is_refusal(&error) {
        Ok(Finished::Refused {
            error: error.to_string(),
        })
    } else {
        Err(fault::unavailable(error))
    }
}

// Written once, for two types that a handler may borrow: a connection, and a transaction. It is the same transaction in
// both cases.
macro_rules! transactional_store {
    ($tx:ty, |$transaction:ident| $lent:expr) => {
        impl TransactionalStore<$tx> for SqliteStore {
            type Transaction = OpenTransaction;

            fn transactions(&self) -> usize {
                self.pool.connections()
            }

            fn time_limit(&self) -> Option<Duration> {
                // No network lies in between, whose silence could keep a handler's transaction open for ever.
                None
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
                Some(SqliteStore::outbox(self))
            }

            fn lend(open: &mut OpenTransaction) -> &mut $tx {
                let $transaction = &mut open.open.transaction;
                $lent
            }

            async fn is_alive(&self, _: &mut OpenTransaction) -> bool {
                // A file is not far away.
                true
            }

            async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
                // By the writer, as for other leases. It waits for the write lock, which the handler's own transaction
                // may have: so an unanswered heartbeat does not stop work in a transaction.
                self.extend(lease, by).await
            }

            async fn open(&self, opening: Open<'_>) -> Result<OpenTransaction, StoreError> {
                match opening {
                    Open::Batch => self.open_unclaimed().await,
                    Open::Recorded { entity, .. } => self.open_recorded(entity).await,
                    _ => Err(opening.refused()),
                }
            }

            async fn finish(
                &self,
                open: OpenTransaction,
                finish: Finish<'_>,
            ) -> Result<Finished, StoreError> {
                self.finish_open(open, finish).await
            }
        }

        impl BatchStore<$tx> for SqliteStore {
            const MOVES_MARKS: bool = true;

            async fn claim_for_batch(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
                // Answered before it is on the disk: the batch's commit follows it in the same log.
                self.claim_atomic(request).await
            }
        }
    };
}

transactional_store!(SqliteConnection, |transaction| &mut *transaction);
transactional_store!(Transaction<'static, Sqlite>, |transaction| transaction);
