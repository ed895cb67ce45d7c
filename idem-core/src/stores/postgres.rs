//! A store in a `PostgreSQL` database: durable, shared by all workers that reach the server.
//!
//! A claim of a message without a number, call by call. Paths that begin with `executor/`, `store/` or `stores/` are
//! from `idem-core/src`, all others from `postgres/`:
//!
//! 1. `executor/leased.rs`, `claim_enforced`: asks the store, by `stores/measured.rs`.
//! 2. `claim_answered_when`, here: puts it into a queue (`stores/batcher.rs`). `batch_task.rs`, `ask`, sends a batch of
//!    what waits there.
//! 3. `claims.rs`, `statement`: chooses the SQL. `claim_new.sql` only inserts keys that are not recorded. If the first
//!    call of one of the batch's keys was asked before, or is a replay, the whole batch gets `claim.sql`, which decides
//!    about every record by `acquires.sql`. `claim_input.sql` binds clock and parameters. `sql.rs` and `names.rs` put
//!    names and the fragments `{…}` in, `link.rs` sends it.
//! 4. `row.rs` and `stores/rows.rs` read the answer, `batch.rs` gives each caller its row, `claims.rs`, `read`, says
//!    what it means. `written` (`claim_answers.sql`: what the statement's INSERT, or its ON CONFLICT update, returned)
//!    means acquired. Any other row, a missing row, and copies of the key behind it are explained by
//!    `store/rules/record/claim.rs`; if that says that the key could be acquired, the claim is asked again, 20 times at
//!    most. SQL and this function have the same rules, but for the number of a new token; the model test
//!    (`idem-core/tests/model.rs`) compares them.
//! 5. `executor/leased.rs`, `grant_or_give_back`: whether anything speaks against running
//!    (`executor/verdict/objection.rs`). If nothing does: `granted`. If something does, and for any other answer:
//!    `NotRun::into_execution` (`executor/verdict.rs`).
//!
//! An atomic claim waits for a connection, then claims and begins at the same time. While all connections are in use it
//! claims first, unless it was attempted before or this is its last attempt. That is `begin_alone`
//! (`executor/atomic/opening.rs`), `begin_open` and `claim_open_ahead` (`atomic.rs`), and `transaction_pool.rs`. Its
//! completion:
//!
//! 1. `executor/atomic.rs`, `end_called`, `Finisher::write` and `commit`: by `stores/measured/transactional.rs` to
//!    `transactions.rs` (`TransactionalStore`, in the macro `transactional_store!`).
//! 2. `atomic.rs`, `commit_alone`: `atomic/statement.rs` fills `atomic/commit.sql`, which calls
//!    `idem_records_complete_one` (`schema.sql`) and commits.
//! 3. `atomic/transaction_end.rs`, `commit`, called by `end_own` in `atomic.rs`, which limits the wait: has
//!    `exchange.rs` send it on the handler's own connection. `read_commit_error` says what an error means.
//! 4. Without an answer: `Finisher::ask_again` claims as the same owner. If the key is completed with the same outcome,
//!    `whose` repeats the completion; if the claim acquires, the commit was not carried out, and the message is tried
//!    again.

use std::{
    fmt,
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError},
    time::Duration,
};

use sqlx::{Row, postgres::PgConnectOptions};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    handler::Outcome,
    message::{Position, PositionKind},
    store::{
        Claim, ClaimRequest, ConnectError, Finding, Lease, Purge, Release, Store, StoreError,
        Write, finding::UNPURGED_AFTER, operator::AUDIT_LASTS, rules::record::Change,
    },
    stores::{
        batcher::{Batcher, Waiting},
        server_clock::Clock,
    },
};

mod atomic;
mod batch;
mod batch_commit;
mod batch_task;
mod builder;
mod call;
mod check;
mod claims;
mod exchange;
mod fault;
mod group;
mod instant;
mod length;
mod link;
mod location;
mod migration;
mod names;
mod operator;
mod outbox;
mod pooler;
mod purging;
mod recorded_by;
mod row;
mod sequences;
mod sessions;
mod settings;
mod sql;
mod streams;
mod template;
#[cfg(test)]
mod tests;
mod transaction_pool;
mod transactions;
mod writes;

pub use builder::PostgresStoreBuilder;
use claims::{AnswerWhen, ClaimCall};
use fault::unavailable;
use group::Groups;
use link::{Address, Link};
pub use migration::Migrate;
use names::Names;
use operator::Operator;
use outbox::Outbox;
use recorded_by::RecordedTables;
use sequences::Sequences;
use sessions::Sessions;
use sql::Sql;
use streams::Streams;
use transaction_pool::TransactionPool;
use writes::WriteCall;

/// Remembers keys in a `PostgreSQL` table. Clones share their connections.
///
/// | | |
/// |---|---|
/// | durability | an answered write is as durable as the server's commits (`synchronous_commit`) |
/// | processes | any number, on any hosts |
/// | time | the server's clock |
/// | speed | one round trip per call; calls that wait while a statement is under way share the next one, and its commit |
/// | connections | one for claims, one for writes, one for purging, one for the leases of atomic handlers and one to look into tables of their own, once there are any; one for the marks of streams; up to four for sessions and sequences; one for look-ups and operators; two for the outbox |
/// | isolation | whatever the server's default is |
/// | atomic handlers | take `&mut PgConnection` or `&mut PgTransaction<'_>`, on connections of their own |
/// | poolers | in session mode, or such as bring prepared statements along; others are refused at the start |
///
/// ```no_run
/// # async fn example() -> Result<(), idem_core::store::ConnectError> {
/// use std::time::Duration;
/// use idem_core::{PostgresStore, store::PurgeTask};
///
/// let store = PostgresStore::connect("postgres://shop@db.example/shop").await?;
/// let purging = PurgeTask::spawn(store.clone(), Duration::from_mins(10));
/// # drop(purging);
/// # Ok(()) }
/// ```
///
/// # Atomic handlers
/// The key is claimed in a commit of its own; then the handler runs in a transaction that ends with
/// the completion. It may choose its isolation level, role and `search_path`. It may not end the
/// transaction: then it has failed, and what it committed stays. The same goes for an error of a
/// statement that it ignores, unless in a savepoint.
/// The claim does not wait until it is on disk, because the completion, which does, comes after it.
/// If the server crashes in between, claim and transaction are undone together: that attempt is not
/// counted, and its fencing token may be given out again.
///
/// The next handler gets the connection without settings, temporary tables, channels, cursors and
/// advisory locks of this one; what was prepared by `PREPARE` stays.
///
/// Deferred triggers and constraints run after a `RESET ROLE`: as the role that the store connects
/// as, not as one that the handler has set.
///
/// A handler that waits for something else keeps its connection and its row locks. If its host
/// vanishes, the server ends the transaction after 25 s; behind a pooler, it is the pooler that must
/// notice. While the server cannot finish a commit (a synchronous standby is away, a deferred trigger
/// takes its time), claims of that key are [`StoreError::Unavailable`], and those that share their
/// statement are answered later than usual.
///
/// # When the server is away
/// A call that cannot be answered within the response timeout is [`StoreError::Unavailable`]; the
/// store connects again by itself. A connection that breaks while the server is there costs no
/// caller an error: every call may be repeated, so it is.
///
/// # Fencing tokens
/// They come from a sequence, and are greater than the record's last one. If the sequence is set
/// back *and* the record is gone (a restored backup, logical replication, which copies no
/// sequences), a new token of the key may be lower than one that was given out before.
///
/// # Looking at the table
/// ```sql
/// SELECT key, attempts, in_doubt, lease_ends - now() AS remaining
/// FROM idem_records WHERE state = 'in_progress' ORDER BY lease_ends;
/// ```
/// There is no index on the state, because updates would have to keep it: the server reads the
/// whole table for this.
#[derive(Clone)]
pub struct PostgresStore {
    /// Answered by `batch_task`, with the statement of `claims`.
    claims: Batcher<Waiting<ClaimCall>>,
    writes: Batcher<Waiting<WriteCall>>,
    /// Apart, so that a purge that takes its time keeps nobody waiting.
    purging: Arc<Mutex<Link>>,
    /// Where the next purge begins.
    purged: Arc<StdMutex<purging::Looked>>,
    address: Address,
    pool: TransactionPool,
    transaction_timeout: Duration,
    groups: Groups,
    /// Extends the leases of open transactions, which hold their own connections.
    heartbeats: Arc<Mutex<Link>>,
    sessions: Sessions,
    sequences: Sequences,
    recorded_tables: RecordedTables,
    operator: Operator,
    outbox: Outbox,
    streams: Streams,
    names: Names,
    sql: Arc<Sql>,
    clock: Clock,
}

impl PostgresStore {
    /// Connects to `postgres://USER@HOST/DATABASE`, and creates the tables if they are not there.
    ///
    /// # Errors
    /// If the server cannot be reached, or the tables cannot be used; see
    /// [`PostgresStoreBuilder::build`].
    ///
    /// # Cancel safety
    /// A dropped call may have created the tables, and leaves no connection. Call it again.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).build().await
    }

    /// Starts from the defaults, with a URL.
    pub fn builder(url: &str) -> PostgresStoreBuilder {
        PostgresStoreBuilder::of_url(url)
    }

    /// Starts from the defaults, with an application's own options: a password that a URL should not hold, a
    /// certificate, a socket. Those of its pool are `(*pool.connect_options()).clone()`.
    ///
    /// The store opens connections of its own with them, and takes none of the application's pool:
    /// `docs/stores/postgres.md` says why. They are named `idem` unless the options name them, and log no statements.
    ///
    /// ```no_run
    /// # async fn example(password: &str) -> Result<(), idem_core::store::ConnectError> {
    /// use idem_core::{PostgresStore, sqlx::postgres::PgConnectOptions};
    ///
    /// let options = PgConnectOptions::new().host("db.internal").username("shop").password(password);
    /// let store = PostgresStore::builder_with(options).connections(32).build().await?;
    /// # drop(store);
    /// # Ok(()) }
    /// ```
    pub fn builder_with(options: PgConnectOptions) -> PostgresStoreBuilder {
        PostgresStoreBuilder::of_options(options)
    }

    /// What can be found out about the tables: a [`Finding`] if nobody purges them.
    ///
    /// # Errors
    /// If the store cannot tell.
    pub async fn findings(&self) -> Result<Vec<Finding>, StoreError> {
        let statement = || {
            sqlx::query(self.sql.unpurged.clone())
                .bind(self.clock.skew())
                .bind(length::micros(UNPURGED_AFTER))
        };
        let rows = self.purging.lock().await.fetch(statement).await;
        let rows = rows.map_err(unavailable)?;
        let since = rows.first().map(|row| row.try_get::<i64, _>(0)).transpose();
        let since = since.map_err(unavailable)?;
        Ok(since.map(Finding::unpurged).into_iter().collect())
    }

    /// The statements that create the tables and a function, for those who run their own
    /// migrations. None does harm if what it creates is there. Without a schema the names are not
    /// qualified.
    ///
    /// # Errors
    /// If a name cannot be one.
    pub fn schema(schema: Option<&str>, table: &str) -> Result<String, ConnectError> {
        let names = Names::new(schema, table)?;
        let tables = names.put_into_script(include_str!("postgres/schema.sql"));
        Ok(match names.create_schema() {
            Some(schema) => format!("{};\n\n{}", schema.as_str(), tables.as_str()),
            None => tables.as_str().to_owned(),
        })
    }

    /// Moves this store's clock forward, and that of its clones.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.look_anew();
    }

    /// Takes back how far this store's clock was moved, and that of its clones.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn reset_clock(&self) {
        self.clock.reset();
        self.look_anew();
    }

    /// What was passed may be due by the new clock.
    #[cfg(any(test, feature = "testing"))]
    fn look_anew(&self) {
        self.outbox.look_anew();
        *self.looked() = purging::Looked::default();
    }

    fn looked(&self) -> MutexGuard<'_, purging::Looked> {
        // What is written under the lock is never half done.
        self.purged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes at most so many records. How many were removed.
    async fn purge_records(&self, most: u32) -> Result<u32, StoreError> {
        let mut link = self.purging.lock().await;
        let now = Instant::now();
        let from = self.looked().from(now);
        let statement = || {
            sqlx::query(self.sql.purge.clone())
                .bind(self.clock.skew())
                .bind(i64::from(most))
                .bind(from)
        };
        let rows = link.fetch(statement).await.map_err(unavailable)?;
        let row = rows
            .first()
            .ok_or_else(|| unavailable(sqlx::Error::RowNotFound))?;
        let (removed, up_to): (i64, Option<i64>) = row
            .try_get(0)
            .and_then(|removed| Ok((removed, row.try_get(1)?)))
            .map_err(unavailable)?;
        self.looked().note(now, from, up_to);
        Ok(u32::try_from(removed).unwrap_or(most))
    }

    async fn claim_answered_when(
        &self,
        request: &ClaimRequest,
        answered: AnswerWhen,
    ) -> Result<Claim, StoreError> {
        match request.checked_position()? {
            Position::None => {
                let request = request.clone();
                self.claims.call(ClaimCall { request, answered }).await?
            }
            Position::Session(place) => Box::pin(self.claim_place(request, place)).await,
            Position::Sequence(place) => {
                Box::pin(self.claim_numbered(request, place, answered)).await
            }
        }
    }

    async fn write(&self, lease: &Lease, change: Change) -> Result<Write, StoreError> {
        let call = WriteCall {
            key: lease.key.clone(),
            token: lease.token.get(),
            change,
        };
        self.writes.call(call).await?
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("host", &self.address.options.get_host())
            .field("database", &self.address.options.get_database())
            .field("table", &self.names)
            .finish_non_exhaustive()
    }
}

impl Store for PostgresStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claim_answered_when(request, AnswerWhen::Durable).await
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.write(lease, Change::Extend { by }).await
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        let outcome = outcome.clone();
        self.write(lease, Change::Complete { outcome, retention })
            .await
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        let reason = reason.clone();
        self.write(lease, Change::Release { reason }).await
    }

    fn keeps(&self, kind: PositionKind) -> bool {
        match kind {
            PositionKind::Session | PositionKind::Sequence => true,
        }
    }
}

impl PostgresStore {
    /// Notes of what operators changed are not counted: they are no records. Nor need a worker's role be allowed to
    /// remove them; then another one's does it, or nobody.
    async fn purge_audit(&self, batch: u32) -> Result<(), StoreError> {
        let statement = || {
            sqlx::query(self.sql.purge_audit.clone())
                .bind(self.clock.skew())
                .bind(i64::from(batch))
                .bind(length::micros(AUDIT_LASTS))
        };
        match self.purging.lock().await.fetch(statement).await {
            Err(fault) if !fault.is_missing_right() && !fault.is_missing_table() => {
                Err(fault.unavailable())
            }
            _ => Ok(()),
        }
    }
}

impl Purge for PostgresStore {
    /// Each statement commits by itself, so nothing is left half done.
    async fn purge(&self, batch: u32) -> Result<u32, StoreError> {
        let mut left = batch - self.purge_records(batch).await?.min(batch);
        for sql in self.sequences.purges() {
            if left == 0 {
                break;
            }
            let statement = || {
                sqlx::query(sql.clone())
                    .bind(self.clock.skew())
                    .bind(i64::from(left))
            };
            let rows = self.purging.lock().await.fetch(statement).await;
            let rows = rows.map_err(unavailable)?;
            let removed: i64 = rows
                .iter()
                .map(|row| row.try_get::<i64, _>(0))
                .sum::<Result<_, _>>()
                .map_err(unavailable)?;
            // What one statement has used up of the batch is not left for the next.
            left -= u32::try_from(removed).unwrap_or(left).min(left);
        }
        self.purge_audit(batch).await?;
        Ok(batch - left)
    }
}
