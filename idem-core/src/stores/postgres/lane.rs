//! A queue with a connection of its own: whatever waits while a batch is under way is the next one.

use std::{collections::HashMap, sync::Arc};

use sqlx::postgres::PgRow;
use tokio::sync::{mpsc, oneshot};

use super::{
    batch::{Batch, Waiting},
    clock::Clock,
    fault::{Fault, Remedy},
    row::{self, Told},
    session::{Session, Statement},
    sql::Sql,
};
use crate::{message::Key, store::StoreError, telemetry::Batches};

/// How many calls may wait; further callers wait to be let in.
const QUEUE: usize = 1024;
/// How many calls share a statement at most, so that the first does not wait for ever.
const BATCH: usize = 256;
/// How many bytes they send at most, unless a single one sends more.
const BATCH_BYTES: usize = 4 << 20;

/// Whether calls are asked for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    First,
    /// One of them got no answer from an earlier statement.
    Again,
}

/// One caller's question, of which many fit into one statement.
pub(super) trait Call: Send + Sync + Sized + 'static {
    type Answer: Send;

    fn key(&self) -> &Key;

    /// How much of its caller's making it sends, in bytes.
    fn bytes(&self) -> usize;

    /// What calls of this kind are, in metrics.
    const LANE: &str;

    /// Whether it may be left out if its caller has gone.
    const MAY_BE_DROPPED: bool;

    /// The statement for a batch in which no key occurs twice.
    fn statement(batch: &[&Self], ask: Ask, sql: &Sql, skew: i64) -> Statement;

    /// The answer to a call that was part of the statement; `None` if it has to be asked again.
    fn answer(&self, told: &Told) -> Option<Self::Answer>;

    /// The answer to a call for the same key that waited behind it.
    fn answer_behind(&self, told: &Told) -> Option<Self::Answer>;
}

/// Sends calls to the task. The task ends when the last clone is dropped.
#[derive(Debug)]
pub(super) struct Lane<C: Call>(mpsc::Sender<Waiting<C>>);

impl<C: Call> Clone for Lane<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: Call> Lane<C> {
    pub(super) fn spawn(session: Session, sql: Arc<Sql>, clock: Clock) -> Self {
        let (sender, calls) = mpsc::channel(QUEUE);
        let task = Task {
            session,
            sql,
            clock,
            batches: Batches::of("postgres", C::LANE),
        };
        tokio::spawn(task.run(calls));
        Self(sender)
    }

    /// Asks, and waits until the answer is committed.
    pub(super) async fn call(&self, call: C) -> Result<C::Answer, StoreError> {
        const STOPPED: &str =
            "the store's task has ended, with the runtime that it was opened in or by a panic";
        let (caller, answer) = oneshot::channel();
        self.0
            .send(Waiting::new(call, caller))
            .await
            .map_err(|_| StoreError::unavailable(STOPPED))?;
        answer.await.map_err(|_| StoreError::unavailable(STOPPED))?
    }
}

struct Task {
    session: Session,
    sql: Arc<Sql>,
    clock: Clock,
    batches: Batches,
}

impl Task {
    async fn run<C: Call>(mut self, mut calls: mpsc::Receiver<Waiting<C>>) {
        let mut waiting = Vec::with_capacity(BATCH);
        // What has to be asked again goes first; only without it the lane waits for more.
        while !waiting.is_empty() || calls.recv_many(&mut waiting, BATCH).await > 0 {
            while waiting.len() < BATCH
                && let Ok(call) = calls.try_recv()
            {
                waiting.push(call);
            }
            waiting.retain(Waiting::is_wanted);
            let later = waiting.split_off(fitting(&waiting));
            waiting = self.carry_out(Batch::of(waiting)).await;
            waiting.extend(later);
        }
        self.session.close().await;
    }

    /// Answers all calls, but for those that it returns.
    async fn carry_out<C: Call>(&mut self, batch: Batch<C>) -> Vec<Waiting<C>> {
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
                Err(fault) if fault.remedy() == Remedy::Divide => match batch.halves() {
                    Ok([first, second]) => batches.extend([second, first]),
                    Err(single) => again.extend(single.refuse(&fault)),
                },
                Err(fault) => batch.fail(&fault),
            }
        }
        again
    }

    async fn ask<C: Call>(&mut self, batch: &Batch<C>) -> Result<Vec<PgRow>, Fault> {
        let calls = batch.calls();
        self.batches.sent(calls.len());
        let skew = self.clock.skew();
        let ask = batch.ask();
        let statement = || C::statement(&calls, ask, &self.sql, skew);
        self.session.fetch(statement).await
    }
}

/// How many of these calls go out together: the first ones, and at least one.
fn fitting<C: Call>(waiting: &[Waiting<C>]) -> usize {
    let mut bytes: usize = 0;
    let fit = waiting.iter().take_while(|call| {
        bytes = bytes.saturating_add(call.bytes());
        bytes <= BATCH_BYTES
    });
    fit.count().max(1).min(waiting.len())
}

fn told(rows: &[PgRow]) -> Result<HashMap<&str, Told>, sqlx::Error> {
    rows.iter().map(row::told).collect()
}
