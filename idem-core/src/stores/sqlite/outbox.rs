//! The outbox: written by the statement that commits a handler's transaction, read by whoever publishes.
//!
//! `atomic` hands [`sent`] to its completion. What is taken, removed and changed goes through the writer, like all that
//! is written. What must stay true: nobody is told of a message before it is on the disk, or a loss of power could undo
//! what was already published.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use sqlx::{SqliteConnection, sqlite::SqliteRow};

use super::{
    SqliteStore,
    batch::Batch,
    call::{Call, OutboxAnswer, OutboxAsk, OutboxCall},
    fault::{Fault, unavailable},
    row::hex,
};
use crate::{
    futures::{BoxFuture, FutureExt as _},
    handler::{FreeFrom, Outbox, Outgoing, OutgoingContent, OutgoingId},
    store::{
        Completion, StoreError,
        outbox::{
            GLANCED, OutboxChange, OutboxCounts, OutboxEntry, OutboxGlance, OutboxListing,
            OutboxState, OutboxTable, SharedOutbox, TAKEN_BYTES, Taken, Unpublished,
        },
        rules::record::micros,
    },
    stores::rows::outbox::{content, counts, entry, glance, taken},
};

impl SqliteStore {
    /// What handlers have published and no broker has confirmed yet: for those who publish it, and for operators.
    pub fn outbox(&self) -> SharedOutbox {
        Arc::new(self.clone())
    }

    /// Publishes with a transaction of your own, outside of a handler: in an HTTP route, say. What was published is
    /// written into the store's outbox through this connection, and leaves when its transaction is committed, by a
    /// worker or a relay. Where no transaction is open, it is committed at once.
    ///
    /// ```no_run
    /// # use idem_core::{SqliteStore, handler::{IntoOutgoing, Outbox}, sqlx::Connection as _};
    /// # async fn example(store: SqliteStore, db: &mut idem_core::sqlx::SqliteConnection, event: impl IntoOutgoing)
    /// #     -> Result<(), Box<dyn std::error::Error>> {
    /// let mut transaction = db.begin().await?;
    /// // … what the route writes
    /// let outbox = Outbox::outside();
    /// outbox.publish(event)?;
    /// store.publish(&mut transaction, outbox).await?;
    /// transaction.commit().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// With [`ordered_by`](crate::handler::Outbox::ordered_by), publish last, right before the commit: until then, who
    /// else commits something of this order waits.
    ///
    /// # Errors
    /// If the database refuses it: then the transaction must not be committed. If you make the transaction again, make
    /// the outbox again, too: an outbox that a store has taken is refused.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have written the messages: roll the transaction back. Where no transaction is
    /// open, they may be committed.
    pub async fn publish(
        &self,
        connection: &mut SqliteConnection,
        outbox: Outbox,
    ) -> Result<(), StoreError> {
        let messages = outbox.take_for_anybody();
        let messages = messages.map_err(|error| StoreError::Refused(error.into()))?;
        let now = self.clock.now();
        let Some(list) = list(&messages, now) else {
            return Ok(());
        };
        let sent = sqlx::query(self.sql.outbox.send.clone())
            .bind(list)
            .bind(now)
            .execute(connection);
        sent.await.map(drop).map_err(unavailable)
    }

    async fn ask_outbox(&self, ask: OutboxAsk) -> Result<OutboxAnswer, StoreError> {
        let call = |reply| Call::Outbox(OutboxCall { ask, reply });
        self.writer.call(call).await
    }

    async fn entries(
        &self,
        listing: &OutboxListing,
        only: Option<OutgoingId>,
    ) -> Result<Vec<SqliteRow>, StoreError> {
        let mut connection = self.reader().await?;
        let prefix = (!listing.prefix.is_empty()).then_some(&*listing.prefix);
        let rows = sqlx::query(self.sql.outbox.entries.clone())
            .bind(self.clock.now())
            .bind(listing.state.map(OutboxState::as_str))
            .bind(prefix.map(str::to_owned))
            .bind(prefix.map(|it| format!("{it}\u{10FFFF}")))
            .bind(listing.after.map(|id| id.to_string()))
            .bind(listing.limit.max(1))
            .bind(only.map(|id| id.to_string()))
            .fetch_all(&mut connection)
            .await;
        rows.map_err(unavailable)
    }
}

impl OutboxTable for SqliteStore {
    fn take(&self, most: usize, lease: Duration) -> BoxFuture<'_, Result<Vec<Taken>, StoreError>> {
        async move {
            match self.ask_outbox(OutboxAsk::Take { most, lease }).await? {
                OutboxAnswer::Taken(taken) => Ok(taken),
                OutboxAnswer::Changed(_) => Ok(Vec::new()),
            }
        }
        .boxed()
    }

    fn remove<'a>(&'a self, published: &'a [OutgoingId]) -> BoxFuture<'a, Result<(), StoreError>> {
        let published = published.to_vec();
        async {
            self.ask_outbox(OutboxAsk::Remove(published))
                .await
                .map(drop)
        }
        .boxed()
    }

    fn note<'a>(&'a self, unpublished: &'a [Unpublished]) -> BoxFuture<'a, Result<(), StoreError>> {
        let unpublished = unpublished.to_vec();
        async {
            self.ask_outbox(OutboxAsk::Note(unpublished))
                .await
                .map(drop)
        }
        .boxed()
    }

    /// A file knows no rights of its own, and a store that cannot write to it is not opened.
    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async { self.glance().await.map(drop) }.boxed()
    }

    fn counts(&self) -> BoxFuture<'_, Result<OutboxCounts, StoreError>> {
        async {
            let mut connection = self.reader().await?;
            let row = sqlx::query(self.sql.outbox.counts.clone())
                .bind(self.clock.now())
                .fetch_one(&mut connection)
                .await;
            row.and_then(|row| counts(&row)).map_err(unavailable)
        }
        .boxed()
    }

    fn glance(&self) -> BoxFuture<'_, Result<OutboxGlance, StoreError>> {
        async {
            let mut connection = self.reader().await?;
            let row = sqlx::query(self.sql.outbox.glance.clone())
                .bind(self.clock.now())
                .bind(i64::try_from(GLANCED).unwrap_or(i64::MAX))
                .fetch_one(&mut connection)
                .await;
            row.and_then(|row| glance(&row)).map_err(unavailable)
        }
        .boxed()
    }

    fn troubled(&self, most: u32) -> BoxFuture<'_, Result<Vec<OutboxEntry>, StoreError>> {
        async move {
            let mut connection = self.reader().await?;
            let rows = sqlx::query(self.sql.outbox.troubled.clone())
                .bind(self.clock.now())
                .bind(most)
                .fetch_all(&mut connection)
                .await
                .map_err(unavailable)?;
            let entries = rows.iter().map(entry).collect::<Result<_, _>>();
            entries.map_err(unavailable)
        }
        .boxed()
    }

    fn list<'a>(
        &'a self,
        listing: &'a OutboxListing,
    ) -> BoxFuture<'a, Result<Vec<OutboxEntry>, StoreError>> {
        async {
            let rows = self.entries(listing, None).await?;
            let entries = rows.iter().map(entry).collect::<Result<_, _>>();
            entries.map_err(unavailable)
        }
        .boxed()
    }

    fn show(
        &self,
        id: OutgoingId,
    ) -> BoxFuture<'_, Result<Option<(OutboxEntry, OutgoingContent)>, StoreError>> {
        async move {
            let rows = self.entries(&OutboxListing::default(), Some(id)).await?;
            let shown = |row| Ok::<_, sqlx::Error>((entry(row)?, content(row)?));
            rows.first().map(shown).transpose().map_err(unavailable)
        }
        .boxed()
    }

    fn change<'a>(&'a self, change: &'a OutboxChange) -> BoxFuture<'a, Result<u64, StoreError>> {
        async {
            match self.ask_outbox(OutboxAsk::Change(change.clone())).await? {
                OutboxAnswer::Changed(changed) => Ok(changed),
                OutboxAnswer::Taken(_) => Ok(0),
            }
        }
        .boxed()
    }
}

impl Batch<'_> {
    pub(super) async fn execute_outbox(&mut self, call: &mut OutboxCall) -> Result<(), Fault> {
        let answer = match &call.ask {
            OutboxAsk::Take { most, lease } => OutboxAnswer::Taken(self.take(*most, *lease).await?),
            OutboxAsk::Remove(published) => {
                let ids: Vec<_> = published.iter().map(ToString::to_string).collect();
                let remove = sqlx::query(self.sql.outbox.remove.clone());
                self.change(remove.bind(json!(ids).to_string())).await?
            }
            OutboxAsk::Note(unpublished) => {
                let note = |it: &Unpublished| {
                    let (id, tried) = (it.id.to_string(), it.attempts_from_now_on());
                    json!([id, it.error, it.next.map(micros), it.attempts, tried])
                };
                let list: Vec<_> = unpublished.iter().map(note).collect();
                let note = sqlx::query(self.sql.outbox.note.clone()).bind(self.now);
                self.change(note.bind(json!(list).to_string())).await?
            }
            OutboxAsk::Change(change) => self.change_by_hand(change).await?,
        };
        call.reply.hold(Ok(answer));
        Ok(())
    }

    async fn take(&mut self, most: usize, lease: Duration) -> Result<Vec<Taken>, Fault> {
        let rows = sqlx::query(self.sql.outbox.take.clone())
            .bind(self.now)
            .bind(i64::try_from(most).unwrap_or(i64::MAX))
            .bind(self.now.saturating_add(micros(lease)))
            .bind(i64::try_from(TAKEN_BYTES).unwrap_or(i64::MAX))
            .fetch_all(&mut *self.connection)
            .await?;
        if !rows.is_empty() {
            self.note_written();
        }
        Ok(rows.iter().map(taken).collect::<Result<_, _>>()?)
    }

    async fn change_by_hand(&mut self, change: &OutboxChange) -> Result<OutboxAnswer, Fault> {
        let sql = &self.sql.outbox;
        let statement = match change {
            OutboxChange::Retry(id) => sqlx::query(sql.retry.clone())
                .bind(self.now)
                .bind(id.map(|id| id.to_string())),
            OutboxChange::Discard(id) => sqlx::query(sql.discard.clone()).bind(id.to_string()),
            OutboxChange::Redirect { id, target, head } => sqlx::query(sql.redirect.clone())
                .bind(self.now)
                .bind(id.to_string())
                .bind(target.clone())
                .bind(head.clone()),
            OutboxChange::Cancel(id) => sqlx::query(sql.cancel.clone())
                .bind(self.now)
                .bind(id.clone()),
        };
        self.change(statement).await
    }

    async fn change(
        &mut self,
        statement: sqlx::query::Query<'_, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>,
    ) -> Result<OutboxAnswer, Fault> {
        let changed = statement.execute(&mut *self.connection).await?;
        let changed = changed.rows_affected();
        if changed > 0 {
            self.note_written();
        }
        Ok(OutboxAnswer::Changed(changed))
    }
}

/// What was published by these, as `send.sql` takes it; `None` if nothing was.
pub(super) fn sent(completions: &[Completion<'_>], now: i64) -> Option<String> {
    let messages = completions.iter().flat_map(|it| it.outgoing);
    list(messages, now)
}

/// The same of these.
pub(super) fn list<'a>(
    messages: impl IntoIterator<Item = &'a Outgoing>,
    now: i64,
) -> Option<String> {
    let list: Vec<_> = messages
        .into_iter()
        .map(|it| {
            let due = match it.free_from() {
                FreeFrom::Then(delay) => now.saturating_add(micros(delay)),
                FreeFrom::Time(time) => time.max(now),
            };
            let (id, later) = (it.id.to_string(), i64::from(it.is_later()));
            let (head, body) = (hex(&it.head), hex(&it.body));
            json!([
                id,
                it.message_id,
                it.target,
                head,
                body,
                it.lane,
                later,
                due
            ])
        })
        .collect();
    (!list.is_empty()).then(|| json!(list).to_string())
}
