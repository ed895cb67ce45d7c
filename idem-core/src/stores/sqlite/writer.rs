//! The one writer: a task with a connection of its own, to which all calls queue.

use std::sync::Arc;

use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::{mpsc, oneshot};

use super::{
    batch,
    call::{Call, Reply},
    clock::Clock,
    fault::Fault,
    schema,
    sql::Sql,
};
use crate::{store::StoreError, telemetry::Batches};

/// How many calls may wait; further callers wait to be let in.
const QUEUE: usize = 1024;
/// How many calls share a commit at most, so that the first does not wait for ever.
const BATCH: usize = 256;

/// Sends calls to the task. The task ends when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Writer(mpsc::Sender<Call>);

impl Writer {
    /// Starts the task on an open connection. `options` open it again, should it break.
    pub(super) fn spawn(
        connection: SqliteConnection,
        options: SqliteConnectOptions,
        sql: Arc<Sql>,
        clock: Clock,
    ) -> Self {
        let (sender, calls) = mpsc::channel(QUEUE);
        let task = Task {
            connection: Some(connection),
            options,
            sql,
            clock,
            batches: Batches::of("sqlite", "all"),
        };
        tokio::spawn(task.run(calls));
        Self(sender)
    }

    /// Asks, and waits until the answer is committed.
    pub(super) async fn call<T>(
        &self,
        call: impl FnOnce(Reply<T>) -> Call,
    ) -> Result<T, StoreError> {
        let (caller, answer) = oneshot::channel();
        self.0
            .send(call(Reply::new(caller)))
            .await
            .map_err(|_| StoreError::unavailable(STOPPED))?;
        answer.await.map_err(|_| StoreError::unavailable(STOPPED))?
    }
}

const STOPPED: &str = "the store's writer has stopped with the runtime that it was opened in";

struct Task {
    connection: Option<SqliteConnection>,
    options: SqliteConnectOptions,
    sql: Arc<Sql>,
    clock: Clock,
    batches: Batches,
}

impl Task {
    async fn run(mut self, mut waiting: mpsc::Receiver<Call>) {
        let mut calls = Vec::with_capacity(BATCH);
        // Whatever queued while the last batch was committed is the next one.
        while waiting.recv_many(&mut calls, BATCH).await > 0 {
            self.batches.sent(calls.len());
            let committed = self.commit(&mut calls).await;
            if let Err(fault) = &committed {
                tracing::debug!(error = %fault, calls = calls.len(), "a batch was not committed");
            }
            calls.drain(..).for_each(|call| call.answer(&committed));
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
