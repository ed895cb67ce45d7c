//! A queue before one connection: whatever waits while batches are under way is the next one.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{Cmd, Value};
use tokio::sync::{mpsc, oneshot};

use super::{
    alone::Alone,
    batch::{Answer, Batch, Waiting},
    calls::Call,
    clock::Clock,
    fault::Fault,
    link::Link,
    replicas::Replicas,
    script,
};
use crate::telemetry::Batches;

/// Sends a call that is alone at once, and others to the task, which ends with the last clone of
/// this.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    courier: Arc<Courier>,
    queue: mpsc::UnboundedSender<Waiting>,
    present: Arc<AtomicUsize>,
}

impl Lane {
    /// Where answers wait for replicas, so does whoever else uses the link.
    pub(super) fn spawn(link: Arc<Link>, clock: Clock, replicas: Option<Replicas>) -> Self {
        let (sender, calls) = mpsc::unbounded_channel();
        let courier = Arc::new(Courier {
            link,
            clock,
            replicas,
            batches: Batches::of("redis", "all"),
        });
        let queue = Queue { calls, next: None };
        tokio::spawn(Arc::clone(&courier).serve(queue));
        Self {
            courier,
            queue: sender,
            present: Arc::default(),
        }
    }

    /// Sends a call that shares its command with none.
    pub(super) async fn run_apart(&self, call: &Alone) -> Answer {
        let courier = &self.courier;
        let ask = |command| courier.ask(command);
        call.run(courier.clock.skew(), ask).await
    }

    pub(super) async fn run(&self, call: Call) -> Answer {
        let others = self.present.fetch_add(1, Ordering::Relaxed);
        let _leaves = Leaves(&self.present);
        if others == 0 {
            return self.courier.carry_out_alone(&call).await;
        }
        let (caller, answer) = oneshot::channel();
        self.queue
            .send(Waiting { call, caller })
            .map_err(|_| Fault::NoTask)?;
        answer.await.map_err(|_| Fault::NoTask)?
    }
}

/// A caller, answered or dropped.
struct Leaves<'a>(&'a AtomicUsize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Calls that wait to be sent.
struct Queue {
    calls: mpsc::UnboundedReceiver<Waiting>,
    /// It did not fit into the last batch.
    next: Option<Waiting>,
}

impl Queue {
    /// All that wait, as far as they fit, as soon as there is one; `None` when there will be none.
    async fn batch(&mut self) -> Option<Batch> {
        let mut batch = Batch::default();
        let first = match self.next.take() {
            Some(waiting) => waiting,
            None => self.calls.recv().await?,
        };
        batch.push(first);
        while let Ok(waiting) = self.calls.try_recv() {
            if !batch.has_room_for(&waiting) {
                self.next = Some(waiting);
                break;
            }
            batch.push(waiting);
        }
        Some(batch)
    }

    /// Who queued behind a batch that got no answer has waited as long.
    fn learn(&mut self, sent: Result<(), Fault>) {
        let Some(fault) = sent.err().filter(Fault::is_timeout) else {
            return;
        };
        let next = self.next.take();
        for waiting in next
            .into_iter()
            .chain(std::iter::from_fn(|| self.calls.try_recv().ok()))
        {
            waiting.tell(Err(fault.clone()));
        }
    }
}

#[derive(Debug)]
struct Courier {
    link: Arc<Link>,
    clock: Clock,
    replicas: Option<Replicas>,
    batches: Batches,
}

impl Courier {
    /// How many batches may be under way: one is written or read while the server is busy with
    /// the other.
    const UNDER_WAY: usize = 2;

    async fn serve(self: Arc<Self>, mut queue: Queue) {
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                batch = queue.batch(), if under_way.len() < Self::UNDER_WAY => match batch {
                    Some(batch) => under_way.push(self.carry_out(batch)),
                    None => break,
                },
                Some(sent) = under_way.next() => {
                    queue.learn(sent);
                    // Those who were answered may have more to ask, which then goes together.
                    tokio::task::yield_now().await;
                }
            }
        }
        while under_way.next().await.is_some() {}
    }

    async fn carry_out_alone(&self, call: &Call) -> Answer {
        self.batches.sent(1);
        script::run_alone(call, self.clock.skew(), |command| self.ask(command)).await
    }

    async fn carry_out(&self, batch: Batch) -> Result<(), Fault> {
        if batch.is_empty() {
            return Ok(());
        }
        let ask = |command| self.ask(command);
        let calls = batch.calls();
        self.batches.sent(calls.len());
        let answers = script::run(&calls, self.clock.skew(), ask).await;
        batch.tell(answers)
    }

    async fn ask(&self, command: Cmd) -> Result<Value, Fault> {
        match &self.replicas {
            Some(replicas) => replicas.ask(&self.link, command).await,
            None => Ok(self.link.ask(&command).await?),
        }
    }
}
