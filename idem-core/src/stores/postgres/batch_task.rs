//! The task that sends batches over a connection of its own.
//!
//! `PostgresStore` has one for claims and one for writes. What must stay true: each call is
//! answered or asked again, whatever becomes of the statement.

use std::{collections::HashMap, sync::Arc};

use sqlx::postgres::PgRow;

use super::{
    batch::Batch,
    call::KeyCall,
    clock::Clock,
    fault::{Fault, Remedy},
    row::{self, Told},
    session::Session,
    sql::Sql,
};
use crate::{
    stores::batcher::{Batcher, Limits, Queue, Waiting},
    telemetry::Batches,
};

/// Of each queue of calls.
pub(super) const LIMITS: Limits = Limits {
    calls: 256,
    bytes: 4 << 20,
};

/// Starts a task; calls reach it through the batcher.
pub(super) fn spawn<C: KeyCall>(
    session: Session,
    sql: Arc<Sql>,
    clock: Clock,
) -> Batcher<Waiting<C>> {
    let (batcher, queue) = Batcher::new(LIMITS);
    let task = Task {
        session,
        sql,
        clock,
        batches: Batches::of("postgres", C::LANE),
    };
    tokio::spawn(task.run(queue));
    batcher
}

struct Task {
    session: Session,
    sql: Arc<Sql>,
    clock: Clock,
    batches: Batches,
}

impl Task {
    async fn run<C: KeyCall>(mut self, mut queue: Queue<Waiting<C>>) {
        while let Some(calls) = queue.next().await {
            let again = self.carry_out(Batch::of(calls)).await;
            queue.put_back(again);
        }
        self.session.close().await;
    }

    /// Answers all calls, but for those that it returns.
    async fn carry_out<C: KeyCall>(&mut self, batch: Batch<C>) -> Vec<Waiting<C>> {
        let mut again = Vec::new();
        let mut batches = vec![batch];
        while let Some(batch) = batches.pop() {
            if batch.is_empty() {
                continue;
            }
            match self.ask(&batch).await {
                Ok(rows) => match told(&rows) {
                    Ok(told) => again.extend(batch.answer(&told)),
                    Err(error) => batch.fail(&error.into()),
                },
                // One row is in the way of all: halves find out whose.
                Err(fault) if fault.remedy() == Remedy::Divide => match batch.halves() {
                    Ok([first, second]) => batches.extend([second, first]),
                    Err(single) => again.extend(single.refuse(&fault)),
                },
                Err(fault) => batch.fail(&fault),
            }
        }
        again
    }

    async fn ask<C: KeyCall>(&mut self, batch: &Batch<C>) -> Result<Vec<PgRow>, Fault> {
        let calls = batch.calls();
        self.batches.sent(calls.len());
        let skew = self.clock.skew();
        let ask = batch.ask();
        let statement = || C::statement(&calls, ask, &self.sql, skew);
        self.session.fetch(statement).await
    }
}

fn told(rows: &[PgRow]) -> Result<HashMap<&str, Told>, sqlx::Error> {
    rows.iter().map(row::told).collect()
}
