//! The outbox: written by the statement that commits a handler's transaction, read by whoever publishes.
//!
//! `atomic`, `group` and `batch_commit` put [`sent`] in front of their completions and marks. What must stay true:
//!
//! - The rows are committed with the completions, or not at all.
//! - A scan never begins at the table's start for nothing, because what was deleted there is read for as long as any
//!   transaction of the server may see it.

use std::{
    fmt,
    sync::{Arc, Mutex as StdMutex, PoisonError},
    time::Duration,
};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, SqlStr, postgres::PgRow};
use tokio::{sync::Mutex, time::Instant};

use super::{
    Names, PostgresStore,
    fault::{Fault, unavailable},
    length::{LONGEST, micros},
    link::{Address, Link, Statement, Work},
    migration::READ_COMMITTED,
    sql::Sql,
    template::{Hex, Template},
};
use crate::{
    futures::{BoxFuture, FutureExt as _},
    handler::{self, FreeFrom, IntoOutgoing, OutboxError, Outgoing, OutgoingContent, OutgoingId},
    random,
    store::{
        Completion, StoreError,
        outbox::{
            GLANCED, OutboxChange, OutboxCounts, OutboxEntry, OutboxGlance, OutboxListing,
            OutboxState, OutboxTable, SharedOutbox, TAKEN_BYTES, Taken, Unpublished,
        },
    },
    stores::{
        rows::outbox::{content, counts, entry, glance, taken},
        server_clock::Clock,
    },
};

/// The table, and connections of its own. Clones share them.
#[derive(Clone)]
pub(super) struct Outbox {
    /// The connection by which messages are taken.
    takes: Arc<Mutex<Link>>,
    /// The connection by which it is told what has become of them, so that neither waits for the other.
    ends: Arc<Mutex<Link>>,
    sql: Arc<Statements>,
    clock: Clock,
    looked: Arc<StdMutex<Looked>>,
}

/// Up to when everything that was due has been taken.
#[derive(Default)]
struct Looked {
    /// Everything that was committed by then, and due.
    up_to: Option<Instant>,
    /// When it was last looked from the table's start.
    whole: Option<Instant>,
}

/// A transaction may be committed so long after it has written its rows, and they are found at once all the same.
const SLOWEST_COMMIT: Duration = Duration::from_secs(5);

/// How often it is looked from the start, for what was committed later than that.
const WHOLE_EVERY: Duration = Duration::from_mins(1);

struct Statements {
    send: Template,
    lacks: SqlStr,
    take: SqlStr,
    remove: SqlStr,
    note: SqlStr,
    counts: SqlStr,
    glance: SqlStr,
    troubled: SqlStr,
    entries: SqlStr,
    retry: SqlStr,
    discard: SqlStr,
    redirect: SqlStr,
    cancel: SqlStr,
}

impl PostgresStore {
    /// What handlers have published and no broker has confirmed yet: for those who publish it, and for operators.
    pub fn outbox(&self) -> SharedOutbox {
        Arc::new(self.outbox.clone())
    }

    /// Publishes with a transaction of your own, outside of a handler: in an HTTP route, say. What was published is
    /// written into the store's outbox through this connection, and leaves when its transaction is committed, by a
    /// worker or a relay. Where no transaction is open, it is committed at once.
    ///
    /// ```no_run
    /// # use idem_core::{PostgresStore, handler::{IntoOutgoing, Outbox}, sqlx::Connection as _};
    /// # async fn example(store: PostgresStore, db: &mut idem_core::sqlx::PgConnection, event: impl IntoOutgoing)
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
        connection: &mut PgConnection,
        outbox: handler::Outbox,
    ) -> Result<(), StoreError> {
        let messages = outbox.take_for_anybody();
        let messages = messages.map_err(|error| StoreError::Refused(error.into()))?;
        if messages.is_empty() {
            return Ok(());
        }
        let messages: Vec<_> = messages.iter().collect();
        let statement = send(&self.sql.send, &messages, self.clock.skew());
        let sent = sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection);
        let sent = sent.await;
        sent.map(drop).map_err(unavailable)
    }
}

impl Outbox {
    pub(super) fn new(address: &Address, names: &Names, clock: &Clock) -> Self {
        let sql = |file| names.put_into(file);
        let link = || Arc::new(Mutex::new(Link::new(address.clone())));
        Self {
            takes: link(),
            ends: link(),
            sql: Arc::new(Statements {
                send: names.template(include_str!("outbox/send.sql")),
                lacks: sql(include_str!("outbox/lacks.sql")),
                take: sql(include_str!("outbox/take.sql")),
                remove: sql(include_str!("outbox/remove.sql")),
                note: sql(include_str!("outbox/note.sql")),
                counts: sql(include_str!("outbox/counts.sql")),
                glance: sql(include_str!("outbox/glance.sql")),
                troubled: sql(include_str!("outbox/troubled.sql")),
                entries: sql(include_str!("outbox/entries.sql")),
                retry: sql(include_str!("outbox/retry.sql")),
                discard: sql(include_str!("outbox/discard.sql")),
                redirect: sql(include_str!("outbox/redirect.sql")),
                cancel: sql(include_str!("outbox/cancel.sql")),
            }),
            clock: clock.clone(),
            looked: Arc::default(),
        }
    }

    async fn end(&self, statement: impl Fn() -> Statement) -> Result<Vec<PgRow>, StoreError> {
        let rows = self.ends.lock().await.fetch(statement).await;
        rows.map_err(|fault| refused_or_unavailable(&fault))
    }

    fn take_statement(&self, most: usize, lease: Duration, since: Option<Duration>) -> Statement {
        sqlx::query(self.sql.take.clone())
            .bind(self.clock.skew())
            .bind(i64::try_from(most).unwrap_or(i64::MAX))
            .bind(micros(lease))
            .bind(since.map(micros))
            .bind(i64::try_from(TAKEN_BYTES).unwrap_or(i64::MAX))
    }

    fn remove_statement(&self, ids: Vec<String>) -> Statement {
        sqlx::query(self.sql.remove.clone()).bind(ids)
    }

    fn note_statement(&self, unpublished: &[Unpublished]) -> Statement {
        let number = |attempts| i32::try_from(attempts).unwrap_or(i32::MAX);
        let errors = unpublished.iter().map(|it| it.error.replace('\0', " "));
        let again = unpublished.iter().map(|it| it.next.map(micros));
        let taken = unpublished.iter().map(|it| number(it.attempts));
        let tried = (unpublished.iter()).map(|it| number(it.attempts_from_now_on()));
        sqlx::query(self.sql.note.clone())
            .bind(self.clock.skew())
            .bind(texts(unpublished.iter().map(|it| it.id)))
            .bind(errors.collect::<Vec<_>>())
            .bind(again.collect::<Vec<_>>())
            .bind(taken.collect::<Vec<_>>())
            .bind(tried.collect::<Vec<_>>())
    }

    fn glance_statement(&self) -> Statement {
        sqlx::query(self.sql.glance.clone())
            .bind(self.clock.skew())
            .bind(i64::try_from(GLANCED).unwrap_or(i64::MAX))
    }

    async fn check(&self) -> Result<(), StoreError> {
        let mut link = self.ends.lock().await;
        let Err(fault) = link.carry_out(&Rehearsal(self)).await else {
            return Ok(());
        };
        if !fault.is_missing_right() {
            return Err(refused_or_unavailable(&fault));
        }
        let rows = link.fetch(|| sqlx::query(self.sql.lacks.clone())).await;
        let rows = rows.map_err(unavailable)?;
        let lacks = rows.first().and_then(|row| row.try_get(0).ok().flatten());
        let lacks: String = lacks.unwrap_or_else(|| fault.to_string());
        Err(StoreError::Refused(
            format!("the store's role may not publish by the outbox: let the tables' owner GRANT {lacks}").into(),
        ))
    }

    async fn take(&self, most: usize, lease: Duration) -> Result<Vec<Taken>, StoreError> {
        let asked = Instant::now();
        let since = self.looked().since(asked);
        let statement = || self.take_statement(most, lease, since);
        let rows = self.takes.lock().await.fetch(statement).await;
        let rows = rows.map_err(|fault| refused_or_unavailable(&fault))?;
        // Else there may be more.
        if rows.is_empty() {
            let mut looked = self.looked();
            looked.up_to = Some(asked);
            if since.is_none() {
                looked.whole = Some(asked);
            }
        }
        read_all(&rows, taken)
    }

    async fn entries(
        &self,
        listing: &OutboxListing,
        only: Option<OutgoingId>,
    ) -> Result<Vec<PgRow>, StoreError> {
        let prefix = (!listing.prefix.is_empty()).then(|| listing.prefix.clone());
        // The bytes of a text are below 0xF5.
        let behind = prefix.as_ref().map(|it| format!("{it}\u{10FFFF}"));
        let statement = || {
            sqlx::query(self.sql.entries.clone())
                .bind(self.clock.skew())
                .bind(listing.state.map(OutboxState::as_str))
                .bind(prefix.clone())
                .bind(behind.clone())
                .bind(listing.after.map(|id| id.to_string()))
                .bind(i64::from(listing.limit.max(1)))
                .bind(only.map(|id| id.to_string()))
        };
        self.end(statement).await
    }

    /// What was not due yet may be so now, and not only what has become so since.
    pub(super) fn look_anew(&self) {
        self.looked().whole = None;
    }

    fn looked(&self) -> std::sync::MutexGuard<'_, Looked> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a message and does with the outbox what a relay does, in a transaction that is rolled back. What others have
/// written is not touched.
struct Rehearsal<'a>(&'a Outbox);

impl Work for Rehearsal<'_> {
    type Done = ();

    async fn on(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        let Self(outbox) = self;
        let mut transaction = connection.begin_with(READ_COMMITTED).await?;
        let statements = [
            outbox.take_statement(0, Duration::ZERO, None),
            outbox.note_statement(&[]),
            outbox.remove_statement(Vec::new()),
            outbox.glance_statement(),
        ];
        for statement in statements {
            statement.fetch_all(&mut *transaction).await?;
        }
        let message = outgoing_of_nobody();
        let sent = send(&outbox.sql.send, &[&message], outbox.clock.skew());
        sqlx::raw_sql(AssertSqlSafe(sent))
            .execute(&mut *transaction)
            .await?;
        transaction.rollback().await
    }
}

/// One that is never committed, in an order that nobody else has.
fn outgoing_of_nobody() -> Outgoing {
    struct Nothing;
    impl IntoOutgoing for Nothing {
        fn into_outgoing(self, id: String) -> Result<OutgoingContent, OutboxError> {
            Ok(OutgoingContent {
                message_id: id,
                target: String::new(),
                head: Vec::new(),
                body: Vec::new(),
            })
        }
    }
    let outbox = handler::Outbox::outside().ordered_by(random::name());
    let published = outbox.publish(Nothing);
    published.expect("it is short");
    outbox.messages().remove(0)
}

impl Looked {
    /// How long ago the oldest message has become due that can be there; `None` if nobody knows.
    fn since(&self, now: Instant) -> Option<Duration> {
        let whole = self.whole?;
        if now.duration_since(whole) > WHOLE_EVERY {
            return None;
        }
        Some(now.duration_since(self.up_to?) + SLOWEST_COMMIT)
    }
}

impl OutboxTable for Outbox {
    fn take(&self, most: usize, lease: Duration) -> BoxFuture<'_, Result<Vec<Taken>, StoreError>> {
        Outbox::take(self, most, lease).boxed()
    }

    fn remove<'a>(&'a self, published: &'a [OutgoingId]) -> BoxFuture<'a, Result<(), StoreError>> {
        let ids = texts(published.iter());
        async move {
            let statement = || self.remove_statement(ids.clone());
            self.end(statement).await.map(drop)
        }
        .boxed()
    }

    fn note<'a>(&'a self, unpublished: &'a [Unpublished]) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            self.end(|| self.note_statement(unpublished)).await?;
            // They may be due before the time up to which all was taken.
            self.look_anew();
            Ok(())
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Outbox::check(self).boxed()
    }

    fn counts(&self) -> BoxFuture<'_, Result<OutboxCounts, StoreError>> {
        async {
            let statement = || sqlx::query(self.sql.counts.clone()).bind(self.clock.skew());
            let rows = self.end(statement).await?;
            // Without messages there is no row.
            Ok(read_all(&rows, counts)?.pop().unwrap_or_default())
        }
        .boxed()
    }

    fn glance(&self) -> BoxFuture<'_, Result<OutboxGlance, StoreError>> {
        async {
            let rows = self.end(|| self.glance_statement()).await?;
            Ok(read_all(&rows, glance)?.pop().unwrap_or_default())
        }
        .boxed()
    }

    fn troubled(&self, most: u32) -> BoxFuture<'_, Result<Vec<OutboxEntry>, StoreError>> {
        async move {
            let statement = || {
                sqlx::query(self.sql.troubled.clone())
                    .bind(self.clock.skew())
                    .bind(i64::from(most))
            };
            read_all(&self.end(statement).await?, entry)
        }
        .boxed()
    }

    fn list<'a>(
        &'a self,
        listing: &'a OutboxListing,
    ) -> BoxFuture<'a, Result<Vec<OutboxEntry>, StoreError>> {
        async { read_all(&self.entries(listing, None).await?, entry) }.boxed()
    }

    fn show(
        &self,
        id: OutgoingId,
    ) -> BoxFuture<'_, Result<Option<(OutboxEntry, OutgoingContent)>, StoreError>> {
        async move {
            let rows = self.entries(&OutboxListing::default(), Some(id)).await?;
            let shown = read_all(&rows, |row| Ok((entry(row)?, content(row)?)))?;
            Ok(shown.into_iter().next())
        }
        .boxed()
    }

    fn change<'a>(&'a self, change: &'a OutboxChange) -> BoxFuture<'a, Result<u64, StoreError>> {
        let statement = move || {
            let skew = self.clock.skew();
            match change {
                OutboxChange::Retry(id) => sqlx::query(self.sql.retry.clone())
                    .bind(skew)
                    .bind(id.map(|id| id.to_string())),
                OutboxChange::Discard(id) => {
                    sqlx::query(self.sql.discard.clone()).bind(id.to_string())
                }
                OutboxChange::Redirect { id, target, head } => {
                    sqlx::query(self.sql.redirect.clone())
                        .bind(skew)
                        .bind(id.to_string())
                        .bind(target.clone())
                        .bind(head.clone())
                }
                OutboxChange::Cancel(id) => sqlx::query(self.sql.cancel.clone())
                    .bind(skew)
                    .bind(id.clone()),
            }
        };
        async move {
            let changed = self.end(statement).await?.len() as u64;
            self.look_anew();
            Ok(changed)
        }
        .boxed()
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

/// What writes all that was published by these, as text; nothing if nothing was. Nothing of a message is put in but its
/// hexadecimal digits.
pub(super) fn sent(sql: &Sql, completions: &[Completion<'_>], skew: i64) -> String {
    sent_by(sql, completions.iter().flat_map(|it| it.outgoing), skew)
}

/// The same of these messages.
pub(super) fn sent_by<'a>(
    sql: &Sql,
    messages: impl IntoIterator<Item = &'a Outgoing>,
    skew: i64,
) -> String {
    let messages: Vec<_> = messages.into_iter().collect();
    if messages.is_empty() {
        return String::new();
    }
    let send = send(&sql.send, &messages, skew);
    if messages.iter().all(|it| it.lane.is_none()) {
        return send;
    }
    format!("SET LOCAL lock_timeout = {};\n{send}", sql.order_wait)
}

fn send(template: &Template, messages: &[&Outgoing], skew: i64) -> String {
    let hex = |of: fn(&Outgoing) -> &[u8]| literal(messages.iter().map(|it| Some(Hex(of(it)))));
    let lanes = messages
        .iter()
        .map(|it| it.lane.as_ref().map(|lane| Hex(lane.as_bytes())));
    let (froms, ats): (Vec<_>, Vec<_>) = messages
        .iter()
        .map(|it| match it.free_from() {
            FreeFrom::Then(delay) => (Some(micros(delay)), None),
            FreeFrom::Time(time) => (None, Some(time.min(LONGEST))),
        })
        .unzip();
    template.fill(&[
        ("ids", &literal(messages.iter().map(|it| Some(it.id)))),
        ("message_ids", &hex(|it| it.message_id.as_bytes())),
        ("targets", &hex(|it| it.target.as_bytes())),
        ("heads", &hex(|it| &it.head)),
        ("bodies", &hex(|it| &it.body)),
        ("lanes", &literal(lanes)),
        (
            "laters",
            &literal(messages.iter().map(|it| Some(it.is_later()))),
        ),
        ("froms", &literal(froms.into_iter())),
        ("ats", &literal(ats.into_iter())),
        ("skew", &skew),
    ])
}

/// Tables of an earlier version lack this one, and waiting does not help.
fn refused_or_unavailable(fault: &Fault) -> StoreError {
    if fault.is_missing_table() {
        let cure =
            "the store's tables lack the one of the outbox: let their owner run `idem migrate`";
        return StoreError::Refused(cure.into());
    }
    if fault.is_of_another_form() {
        let cause = format!(
            "the store's table of the outbox is not as this version knows it ({fault}): let its owner run `idem migrate`"
        );
        return StoreError::Refused(cause.into());
    }
    fault.unavailable()
}

/// An array as it stands in a statement.
fn literal<T: fmt::Display>(values: impl Iterator<Item = Option<T>>) -> String {
    use fmt::Write as _;
    let mut text = String::from("{");
    for (i, value) in values.enumerate() {
        let comma = if i > 0 { "," } else { "" };
        let written = match value {
            // In quotes, because it may be empty.
            Some(value) => write!(text, "{comma}\"{value}\""),
            None => write!(text, "{comma}NULL"),
        };
        written.expect("a string takes what is written");
    }
    text.push('}');
    text
}

fn texts<T: fmt::Display>(ids: impl Iterator<Item = T>) -> Vec<String> {
    ids.map(|id| id.to_string()).collect()
}

fn read_all<T>(
    rows: &[PgRow],
    read: impl Fn(&PgRow) -> Result<T, sqlx::Error>,
) -> Result<Vec<T>, StoreError> {
    let read = rows.iter().map(read).collect::<Result<_, _>>();
    read.map_err(unavailable)
}

#[cfg(test)]
mod tests;
