//! The tasks that claim numbered messages: one for each connection of the sessions.
//!
//! `Sequences` starts them. What must stay true:
//!
//! - The claims of one sequence go to one task, so that no two transactions of this process wait for each other's
//!   locks.
//! - Each claim is answered or put back in front of the queue, whatever becomes of its transaction.

use super::{
    Numbered,
    batch::{Batch, Settled},
    tools::Tools,
};
use crate::{
    store::StoreError,
    stores::{
        batcher::{Batcher, Queue, Waiting},
        postgres::{
            batch_task::LIMITS,
            fault::{Fault, Remedy},
            link::Link,
            sessions::Links,
        },
    },
    telemetry::Batches,
};

/// Starts a task on the connection at this place of the links, which sessions use as well. The task
/// ends when the last clone of the batcher is dropped.
pub(super) fn spawn(links: Links, place: usize, tools: Tools) -> Batcher<Waiting<Numbered>> {
    let (batcher, queue) = Batcher::new(LIMITS);
    let task = Task {
        links,
        place,
        tools,
        batches: Batches::of("postgres", "sequences"),
    };
    tokio::spawn(task.run(queue));
    batcher
}

/// One connection's task, and what it needs to send claims.
struct Task {
    links: Links,
    /// Which of the links is this task's, and of the sessions that have the same.
    place: usize,
    tools: Tools,
    /// Counts the claims that share a transaction.
    batches: Batches,
}

impl Task {
    /// Takes batches off the queue until there will be none. The connection is not closed at the
    /// end: it belongs to the sessions.
    async fn run(self, mut queue: Queue<Waiting<Numbered>>) {
        while queue.is_filled().await {
            // First the connection, then the batch: what comes while a session has the connection
            // goes along.
            let mut link = self.links[self.place].lock().await;
            let again = self.send_until_answered(&mut link, queue.batch()).await;
            // Before the others, so that claims keep their order and none is put off for ever.
            queue.put_back(again);
        }
    }

    /// Sends claims until each is answered, but for those that it returns: they are to be asked
    /// again.
    async fn send_until_answered(
        &self,
        link: &mut Link,
        claims: Vec<Waiting<Numbered>>,
    ) -> Vec<Waiting<Numbered>> {
        let mut again = Vec::new();
        // A stack, in which the first half of a divided batch lies on top.
        let mut batches = vec![claims];
        while let Some(mut batch) = batches.pop() {
            if batch.is_empty() {
                continue;
            }
            match self.ask(link, &batch).await {
                Ok(settled) => {
                    let settled = batch.into_iter().zip(settled);
                    again.extend(settled.filter_map(|(claim, settled)| settle(claim, settled)));
                }
                // One row is refused, or stays locked, and all others are rolled back with it.
                // Halves find out whose it is, so that only its own claim fails.
                Err(fault) if fault.remedy() == Remedy::Divide && batch.len() > 1 => {
                    let second = batch.split_off(batch.len() / 2);
                    batches.extend([second, batch]);
                }
                // Nothing of this batch is known. Those that were divided off are still tried.
                Err(fault) => fail(batch, &fault),
            }
        }
        again
    }

    /// Carries out one transaction for all of these claims.
    async fn ask(
        &self,
        link: &mut Link,
        claims: &[Waiting<Numbered>],
    ) -> Result<Vec<Settled>, Fault> {
        self.batches.sent(claims.len());
        let batch = Batch {
            claims: claims.iter().map(|waiting| &waiting.call).collect(),
            tools: &self.tools,
        };
        // The link does the whole batch over where that helps: on a new connection, or because
        // another transaction was in the way. It does no harm, because the owners stay the same.
        link.carry_out(&batch).await
    }
}

/// Tells the callers of a batch that nothing is known. If only one claim is left of it, its caller
/// is told what is the matter with its row.
fn fail(batch: Vec<Waiting<Numbered>>, fault: &Fault) {
    let claims = batch.len();
    tracing::debug!(error = %fault, claims, "a batch was not carried out");
    for waiting in batch {
        let error = match fault.remedy() {
            Remedy::Divide => fault.about(&waiting.call.call.request.key),
            _ => fault.unavailable(),
        };
        waiting.answer(Err(error));
    }
}

/// Tells the caller; gives the claim back if it has to be asked again.
fn settle(claim: Waiting<Numbered>, settled: Settled) -> Option<Waiting<Numbered>> {
    match settled {
        Settled::Answered(answer) => claim.answer(answer),
        Settled::Later => return Some(claim),
        // Counted, so that a key that others write all the time does not keep the claim here for
        // ever: its caller is told that the store is unavailable, and tries again later.
        Settled::InTheWay => match claim.ask_again() {
            Ok(claim) => return Some(claim),
            Err(claim) => {
                let key = &claim.call.call.request.key;
                let crowded = format!("others were in the way at every try to reach `{key}`");
                claim.answer(Err(StoreError::unavailable(crowded)));
            }
        },
    }
    None
}
