//! A queue for each connection: whatever waits while a transaction is under way shares the next one.

use tokio::sync::{mpsc, oneshot};

use super::{
    Claimed, Numbered,
    batch::{Batch, Settled},
    tools::Tools,
};
use crate::{
    store::StoreError,
    stores::postgres::{
        fault::{Fault, Remedy},
        session::Session as Link,
        sessions::Links,
    },
    telemetry::Batches,
};

/// How many claims may wait; further callers wait to be let in.
const QUEUE: usize = 1024;
/// How many claims share a transaction at most, so that the first does not wait for ever.
const BATCH: usize = 256;
/// How often a claim is asked again because others were in its way, before it is given up.
const ASKED_AT_MOST: u8 = 20;

/// Sends claims to the task. The task ends when the lane is dropped.
pub(super) struct Lane(mpsc::Sender<Waiting>);

/// A claim whose caller waits for the answer.
struct Waiting {
    claim: Numbered,
    caller: oneshot::Sender<Claimed>,
    asked: u8,
}

struct Task {
    links: Links,
    /// Which of the links is this task's, and of the sessions that have the same.
    place: usize,
    tools: Tools,
    batches: Batches,
}

impl Lane {
    pub(super) fn spawn(links: Links, place: usize, tools: Tools) -> Self {
        let (sender, claims) = mpsc::channel(QUEUE);
        let task = Task {
            links,
            place,
            tools,
            batches: Batches::of("postgres", "sequences"),
        };
        tokio::spawn(task.run(claims));
        Self(sender)
    }

    /// Asks, and waits until the answer is committed.
    pub(super) async fn claim(&self, claim: Numbered) -> Claimed {
        const STOPPED: &str =
            "the store's task has ended, with the runtime that it was opened in or by a panic";
        let (caller, answer) = oneshot::channel();
        let waiting = Waiting {
            claim,
            caller,
            asked: 0,
        };
        let sent = self.0.send(waiting).await;
        sent.map_err(|_| StoreError::unavailable(STOPPED))?;
        answer.await.map_err(|_| StoreError::unavailable(STOPPED))?
    }
}

impl Task {
    async fn run(self, mut claims: mpsc::Receiver<Waiting>) {
        let mut waiting = Vec::with_capacity(BATCH);
        // What has to be asked again goes first; only without it the lane waits for more.
        while !waiting.is_empty() || claims.recv_many(&mut waiting, BATCH).await > 0 {
            let mut link = self.links[self.place].lock().await;
            while waiting.len() < BATCH
                && let Ok(claim) = claims.try_recv()
            {
                waiting.push(claim);
            }
            // Nobody would work under a claim that nobody waits for.
            waiting.retain(|claim| !claim.caller.is_closed());
            waiting = self.carry_out(&mut link, waiting).await;
        }
    }

    /// Answers all claims, but for those that it returns.
    async fn carry_out(&self, link: &mut Link, claims: Vec<Waiting>) -> Vec<Waiting> {
        let mut again = Vec::new();
        let mut batches = vec![claims];
        while let Some(mut batch) = batches.pop() {
            if batch.is_empty() {
                continue;
            }
            match self.ask(link, &batch).await {
                Ok(settled) => {
                    let settled = batch.into_iter().zip(settled);
                    again.extend(settled.filter_map(|(claim, settled)| claim.settle(settled)));
                }
                Err(fault) if fault.remedy() == Remedy::Divide && batch.len() > 1 => {
                    let second = batch.split_off(batch.len() / 2);
                    batches.extend([second, batch]);
                }
                Err(fault) => fail(batch, &fault),
            }
        }
        again
    }

    async fn ask(&self, link: &mut Link, claims: &[Waiting]) -> Result<Vec<Settled>, Fault> {
        self.batches.sent(claims.len());
        let batch = Batch {
            claims: claims.iter().map(|waiting| &waiting.claim).collect(),
            tools: &self.tools,
        };
        link.carry_out(&batch).await
    }
}

/// Tells the callers of a batch that nothing is known, or the only one what is the matter with its row.
fn fail(batch: Vec<Waiting>, fault: &Fault) {
    let claims = batch.len();
    tracing::debug!(error = %fault, claims, "a batch was not carried out");
    for waiting in batch {
        let error = match fault.remedy() {
            Remedy::Divide => fault.about(&waiting.claim.call.request.key),
            _ => fault.unavailable(),
        };
        waiting.tell(Err(error));
    }
}

impl Waiting {
    /// Tells the caller, unless the claim has to be asked again.
    fn settle(mut self, settled: Settled) -> Option<Self> {
        match settled {
            Settled::Answered(answer) => self.tell(answer),
            Settled::Later => return Some(self),
            Settled::InTheWay if self.asked + 1 < ASKED_AT_MOST => {
                self.asked += 1;
                return Some(self);
            }
            Settled::InTheWay => {
                let key = &self.claim.call.request.key;
                let crowded = format!("others were in the way at every try to reach `{key}`");
                self.tell(Err(StoreError::unavailable(crowded)));
            }
        }
        None
    }

    fn tell(self, answer: Claimed) {
        // A caller that was dropped meanwhile does not care.
        let _ = self.caller.send(answer);
    }
}
