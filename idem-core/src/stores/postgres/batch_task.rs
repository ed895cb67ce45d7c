//! The task that sends batches over a connection of its own.
//!
//! `PostgresStore` has one for claims and one for writes. Calls that come while a statement is under way share the next
//! one. What must stay true:
//!
//! - Each call is answered or asked again, whatever becomes of the statement.
//! - A row that is refused or locked fails only its own call.

use std::{collections::HashMap, sync::Arc};

use sqlx::postgres::PgRow;

use super::{
    batch::Batch,
    call::KeyCall,
    fault::{Fault, Remedy},
    link::Link,
    row::{self, BatchRow},
    sql::Sql,
};
use crate::{
    stores::{
        batcher::{Batcher, Limits, Queue, Waiting},
        server_clock::Clock,
    },
    telemetry::Batches,
};

/// How much goes into one statement at most, of each queue of calls: 256 calls, and 4 MiB. Enough
/// to share a commit well, and few enough that no statement takes long.
pub(super) const LIMITS: Limits = Limits {
    calls: 256,
    bytes: 4 << 20,
};

/// Starts a task; calls reach it through the batcher. It ends when the last clone of the batcher is
/// dropped.
pub(super) fn spawn<C: KeyCall>(link: Link, sql: Arc<Sql>, clock: Clock) -> Batcher<Waiting<C>> {
    let (batcher, queue) = Batcher::new(LIMITS);
    let task = Task {
        link,
        sql,
        clock,
        batch_sizes: Batches::of("postgres", C::METRIC),
    };
    tokio::spawn(task.run(queue));
    batcher
}

/// One batcher's task: its connection, and what it makes statements of.
struct Task {
    link: Link,
    sql: Arc<Sql>,
    clock: Clock,
    /// Counts the calls that share a statement.
    batch_sizes: Batches,
}

impl Task {
    /// Takes batches off the queue until there will be none, then closes the connection.
    async fn run<C: KeyCall>(mut self, mut queue: Queue<Waiting<C>>) {
        while let Some(calls) = queue.next().await {
            let again = self.send_until_answered(Batch::of(calls)).await;
            // Before the others, so that calls about one key keep their order.
            queue.put_back(again);
        }
        self.link.close().await;
    }

    /// Sends calls until each is answered, but for those that it returns: they are to be asked
    /// again.
    async fn send_until_answered<C: KeyCall>(&mut self, batch: Batch<C>) -> Vec<Waiting<C>> {
        let mut again = Vec::new();
        // A stack of what is left of the batch, in any order: no two parts have a key in common.
        let mut batches = vec![batch];
        while let Some(batch) = batches.pop() {
            if batch.is_empty() {
                continue;
            }
            match self.ask(&batch).await {
                Ok(rows) => match by_key(&rows) {
                    Ok(rows) => again.extend(batch.answer(&rows)),
                    // The rows cannot even be told apart, so nothing is known about any call.
                    Err(error) => batch.fail(&error.into()),
                },
                // One row is in the way of all, and nothing of the statement has happened. Halves
                // find out whose row it is.
                Err(fault) if fault.remedy() == Remedy::Divide => match batch.halves() {
                    Ok([first, second]) => batches.extend([second, first]),
                    Err(single) => again.extend(single.refuse(&fault)),
                },
                Err(fault) => batch.fail(&fault),
            }
        }
        again
    }

    /// Sends one statement, with one row in the answer for each key that it can see.
    async fn ask<C: KeyCall>(&mut self, batch: &Batch<C>) -> Result<Vec<PgRow>, Fault> {
        let calls = batch.calls();
        self.batch_sizes.sent(calls.len());
        let skew = self.clock.skew();
        // Taken once: the link may send the statement several times.
        let ask = batch.ask();
        let statement = || C::statement(&calls, ask, &self.sql, skew);
        self.link.fetch(statement).await
    }
}

/// What each row says, by key.
fn by_key(rows: &[PgRow]) -> Result<HashMap<&str, BatchRow>, sqlx::Error> {
    rows.iter().map(row::of_call).collect()
}
