//! The one writer: a task with a connection of its own, to which all calls queue.

use std::sync::Arc;

use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::oneshot;

use super::{
    batch,
    call::{Call, Reply},
    clock::Clock,
    fault::Fault,
    schema,
    sql::Sql,
};
use crate::{
    store::StoreError,
    stores::batcher::{Batcher, Limits, Queue, Queued, TaskEnded},
    telemetry::Batches,
};

const LIMITS: Limits = Limits {
    calls: 256,
    bytes: usize::MAX,
};

/// Sends calls to the task. The task ends when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Writer(Batcher<Call>);

impl Queued for Call {
    fn bytes(&self) -> usize {
        0
    }

    /// The batch leaves out what nobody waits for, because its transaction may be waited for.
    fn is_wanted(&self) -> bool {
        true
    }
}

impl Writer {
    /// Starts the task on an open connection. `options` open it again, should it break.
    pub(super) fn spawn(
        connection: SqliteConnection,
        options: SqliteConnectOptions,
        sql: Arc<Sql>,
        clock: Clock,
    ) -> Self {
        let (batcher, queue) = Batcher::new(LIMITS);
        let task = Task {
            connection: Some(connection),
            options,
            sql,
            clock,
            batches: Batches::of("sqlite", "all"),
        };
        tokio::spawn(task.run(queue));
        Self(batcher)
    }

    /// Asks, and waits until the answer is committed.
    pub(super) async fn call<T>(
        &self,
        call: impl FnOnce(Reply<T>) -> Call,
    ) -> Result<T, StoreError> {
        let (caller, answer) = oneshot::channel();
        self.0.send(call(Reply::new(caller)))?;
        answer.await.map_err(|_| TaskEnded)?
    }
}

struct Task {
    connection: Option<SqliteConnection>,
    options: SqliteConnectOptions,
    sql: Arc<Sql>,
    clock: Clock,
    batches: Batches,
}

impl Task {
    async fn run(mut self, mut queue: Queue<Call>) {
        while let Some(mut calls) = queue.next().await {
            self.batches.sent(calls.len());
            let committed = self.commit(&mut calls).await;
            if let Err(fault) = &committed {
                tracing::debug!(error = %fault, calls = calls.len(), "a batch was not committed");
            }
            for call in calls {
                call.answer(&committed);
            }
        }
        if let Some(connection) = self.connection {
            // Nobody is left to hear of a failure, and every answered write is durable.
            let _ = connection.close().await;
        }
    }

    async fn commit(&mut self, calls: &mut [Call]) -> Result<(), Fault> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.reconnect().await?,
        };
        let committed = batch::commit(&mut connection, &self.sql, &self.clock, calls).await;
        // A connection that has failed is closed here, by not being put back.
        if committed.as_ref().map_or_else(Fault::is_busy, |()| true) {
            self.connection = Some(connection);
        }
        committed
    }

    /// Opens the file again, but never creates one: an empty file has forgotten everything.
    async fn reconnect(&self) -> Result<SqliteConnection, Fault> {
        let options = self.options.clone().create_if_missing(false);
        let mut connection = options.connect().await?;
        schema::check(&mut connection, &self.sql).await?;
        Ok(connection)
    }
}
