//! The one writer: a task with a connection of its own, to which all calls queue.
//!
//! SQLite has one write lock for the whole file, so the calls of a process share transactions instead of waiting for
//! each other's. What must stay true:
//!
//! - A caller hears nothing before its batch is committed, and nothing that must last before it is on the disk.
//! - Every call is answered, also when the commit fails.
//! - No file is created where one was lost.

use std::sync::Arc;

use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::oneshot;

use super::{
    batch,
    call::{Call, Reply},
    clock::Clock,
    fault::Fault,
    log_sync::LogSync,
    schema,
    sql::Sql,
    write_queue::WriteQueue,
};
use crate::{
    store::StoreError,
    stores::batcher::{Batcher, Limits, Queue, Queued, TaskEnded},
    telemetry::Batches,
};

/// How many calls share a transaction at most, so that other processes get the write lock, too.
/// Bytes cost no network here, so they have no limit.
const LIMITS: Limits = Limits {
    calls: 256,
    bytes: usize::MAX,
};

/// Sends calls to the task. Clones reach the same task, which ends when the last of them is
/// dropped.
#[derive(Clone)]
pub(super) struct Writer(Batcher<Call>);

impl Queued for Call {
    /// The bytes of a call are not counted: see `LIMITS`.
    fn bytes(&self) -> usize {
        0
    }

    /// All calls go into a batch. The batch itself leaves out what nobody waits for: its
    /// transaction may have to wait for the lock, and meanwhile more callers may go.
    fn is_wanted(&self) -> bool {
        true
    }
}

impl Writer {
    pub(super) fn spawn(task: Task) -> Self {
        let (batcher, queue) = Batcher::new(LIMITS);
        tokio::spawn(task.run(queue));
        Self(batcher)
    }

    /// Asks, and waits until the answer is committed.
    ///
    /// # Cancel safety
    /// Dropped before its batch has begun, a claim is left out. Any other call, and any call after
    /// that, may be carried out.
    pub(super) async fn call<T>(
        &self,
        call: impl FnOnce(Reply<T>) -> Call,
    ) -> Result<T, StoreError> {
        let (caller, answer) = oneshot::channel();
        self.0.send(call(Reply::new(caller)))?;
        answer.await.map_err(|_| TaskEnded)?
    }
}

/// The task, and what it needs for a transaction.
pub(super) struct Task {
    /// `None` after it has failed, until the next batch opens another one.
    connection: Option<Open>,
    options: SqliteConnectOptions,
    sql: Arc<Sql>,
    clock: Clock,
    write_queue: WriteQueue,
    log: LogSync,
    /// Counts the calls that share a transaction.
    batches: Batches,
}

/// The connection of the writer.
struct Open {
    connection: SqliteConnection,
    /// Whether its commits wait for the disk.
    syncs: bool,
}

impl Open {
    /// One that is open as the builder opens it.
    fn new(connection: SqliteConnection) -> Self {
        Self {
            connection,
            syncs: false,
        }
    }
}

const FULL: &str = "PRAGMA synchronous = FULL";
const NORMAL: &str = "PRAGMA synchronous = NORMAL";

/// A batch that was committed.
struct Committed {
    /// Whether all that the batch has read and written is on the disk.
    is_synced: bool,
}

impl Task {
    /// A task on an open connection. `options` open the file again, should the connection break.
    pub(super) fn new(
        connection: SqliteConnection,
        options: SqliteConnectOptions,
        sql: Arc<Sql>,
        clock: Clock,
        write_queue: WriteQueue,
        log: LogSync,
    ) -> Self {
        Self {
            connection: Some(Open::new(connection)),
            options,
            sql,
            clock,
            write_queue,
            log,
            batches: Batches::of("sqlite", "all"),
        }
    }

    /// Carries batches out until there will be no more calls.
    async fn run(mut self, mut queue: Queue<Call>) {
        while let Some(mut calls) = queue.next().await {
            self.batches.sent(calls.len());
            let committed = self.commit(&mut calls).await;
            if let Err(fault) = &committed {
                tracing::debug!(error = %fault, calls = calls.len(), "a batch was not committed");
            }
            self.answer(calls, committed);
        }
        if let Some(Open { connection, .. }) = self.connection {
            // Nobody is left to hear of a failure, and every answered write is durable.
            let _ = connection.close().await;
        }
    }

    /// Tells the callers what was found, when it may be told.
    fn answer(&self, calls: Vec<Call>, committed: Result<Committed, Fault>) {
        // Only now: an answer that was told and then lost with the commit would let a message
        // be acknowledged that was never done.
        let (is_synced, committed) = match committed {
            Ok(committed) => (committed.is_synced, Ok(())),
            Err(fault) => (false, Err(fault)),
        };
        let (now, synced): (Vec<_>, Vec<_>) = calls
            .into_iter()
            .partition(|call| is_synced || committed.is_err() || call.is_soon_told());
        for call in now {
            call.answer(&committed);
        }
        if !synced.is_empty() {
            // The next batch need not wait for this.
            let log = self.log.clone();
            tokio::spawn(async move {
                let committed = log.synced().await.map_err(Fault::from);
                for call in synced {
                    call.answer(&committed);
                }
            });
        }
    }

    /// One batch on the connection, which is opened again first if the last one has failed.
    async fn commit(&mut self, calls: &mut [Call]) -> Result<Committed, Fault> {
        let mut open = match self.connection.take() {
            Some(open) => open,
            None => self.reconnect().await?,
        };
        let _place = self.write_queue.enter().await;
        let committed = self.commit_on(&mut open, calls).await;
        if let Err(fault) = &committed
            && fault.is_failed_sync()
        {
            // Also what others have committed before.
            self.log.lose(fault.clone());
        }
        // A connection that has failed is closed here, by not being put back. "Busy" is no failure
        // of the connection: another process has the lock.
        if committed.as_ref().map_or_else(Fault::is_busy, |_| true) {
            self.connection = Some(open);
        }
        self.log.check()?;
        committed
    }

    async fn commit_on(&self, open: &mut Open, calls: &mut [Call]) -> Result<Committed, Fault> {
        // SQLite's own sync is the cheapest where a batch has to wait for one anyway: more calls come meanwhile, and
        // share the next commit.
        let syncs = calls.iter().any(Call::must_last);
        if open.syncs != syncs {
            let level = if syncs { FULL } else { NORMAL };
            sqlx::query(level).execute(&mut open.connection).await?;
            open.syncs = syncs;
        }
        let writes = batch::commit(&mut open.connection, &self.sql, &self.clock, calls).await?;
        if writes && !syncs && calls.iter().any(Call::may_be_lost) {
            // SQLite syncs the log before it copies it into the database's file, and keeps a failure of that to itself.
            // What it has not been able to write there would be missing before all that comes later.
            self.log.sync_soon();
        }
        // A batch that has written nothing has synced nothing either, and may have read what others have committed.
        Ok(Committed {
            is_synced: syncs && writes,
        })
    }

    /// Opens the file again, but never creates one: an empty file has forgotten everything, and all
    /// that was done would run again.
    async fn reconnect(&self) -> Result<Open, Fault> {
        let options = self.options.clone().create_if_missing(false);
        let mut connection = options.connect().await?;
        // The file may have been replaced meanwhile, by a copy from before a migration, say.
        schema::check(&mut connection, &self.sql).await?;
        Ok(Open::new(connection))
    }
}
