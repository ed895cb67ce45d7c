//! The task that sends batches over one connection to one server, two at a time.
//!
//! A call that is alone goes out at once, without the task. What must stay true: where answers wait
//! for replicas, those of calls that are alone do, too.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{Cmd, Value};

use super::{
    calls::{Answer, Call},
    fault::Fault,
    link::Link,
    replicas::Replicas,
    script,
    script_call::ScriptCall,
};
use crate::{
    stores::{
        batcher::{Batcher, Limits, Queue, Waiting},
        server_clock::Clock,
    },
    telemetry::Batches,
};

/// The most that the server is given to carry out in one go: while it does, it does nothing else.
const LIMITS: Limits = Limits {
    calls: 256,
    bytes: 1 << 20,
};

/// Sends a call that is alone at once, and others to the task, which ends with the last clone of
/// this.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    transport: Arc<Transport>,
    batcher: Batcher<Waiting<Call>>,
    present: Arc<AtomicUsize>,
}

impl Sender {
    /// Where answers wait for replicas, so does whoever else uses the link.
    pub(super) fn spawn(link: Arc<Link>, clock: Clock, replicas: Option<Replicas>) -> Self {
        let (batcher, queue) = Batcher::new(LIMITS);
        let transport = Arc::new(Transport {
            link,
            clock,
            replicas,
            batches: Batches::of("redis", "all"),
        });
        tokio::spawn(Arc::clone(&transport).serve(queue));
        Self {
            transport,
            batcher,
            present: Arc::default(),
        }
    }

    /// Sends a call that shares its command with none.
    pub(super) async fn run_apart(&self, call: &ScriptCall) -> Answer {
        let transport = &self.transport;
        let ask = |command| transport.ask(command);
        call.run(transport.clock.skew(), ask).await
    }

    pub(super) async fn run(&self, call: Call) -> Answer {
        let others = self.present.fetch_add(1, Ordering::Relaxed);
        let _leaves = Leaves(&self.present);
        if others == 0 {
            return self.transport.send_alone(&call).await;
        }
        self.batcher.call(call).await?
    }
}

/// A caller, answered or dropped.
struct Leaves<'a>(&'a AtomicUsize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Who queued behind a batch that got no answer has waited as long.
fn learn(queue: &mut Queue<Waiting<Call>>, sent: Result<(), Fault>) {
    let Some(fault) = sent.err().filter(Fault::is_timeout) else {
        return;
    };
    for waiting in queue.drain() {
        waiting.answer(Err(fault.clone()));
    }
}

#[derive(Debug)]
struct Transport {
    link: Arc<Link>,
    clock: Clock,
    replicas: Option<Replicas>,
    batches: Batches,
}

impl Transport {
    /// How many batches may be under way: one is written or read while the server is busy with
    /// the other.
    const UNDER_WAY: usize = 2;

    async fn serve(self: Arc<Self>, mut queue: Queue<Waiting<Call>>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                filled = queue.is_filled(), if under_way.len() < Self::UNDER_WAY => {
                    if !filled {
                        break;
                    }
                    under_way.push(self.send_batch(queue.batch()));
                }
                Some(sent) = under_way.next() => {
                    learn(&mut queue, sent);
                    // Those who were answered may have more to ask, which then goes together.
                    tokio::task::yield_now().await;
                }
            }
        }
        while under_way.next().await.is_some() {}
    }

    async fn send_alone(&self, call: &Call) -> Answer {
        self.batches.sent(1);
        script::run_alone(call, self.clock.skew(), |command| self.ask(command)).await
    }

    async fn send_batch(&self, batch: Vec<Waiting<Call>>) -> Result<(), Fault> {
        if batch.is_empty() {
            return Ok(());
        }
        let ask = |command| self.ask(command);
        let calls: Vec<_> = batch.iter().map(|waiting| &waiting.call).collect();
        self.batches.sent(calls.len());
        match script::run(&calls, self.clock.skew(), ask).await {
            Ok(answers) => {
                for (waiting, answer) in batch.into_iter().zip(answers) {
                    waiting.answer(answer.map_err(Fault::from));
                }
                Ok(())
            }
            Err(fault) => {
                tracing::debug!(error = %fault, calls = batch.len(), "a batch was not answered");
                for waiting in batch {
                    waiting.answer(Err(fault.clone()));
                }
                Err(fault)
            }
        }
    }

    async fn ask(&self, command: Cmd) -> Result<Value, Fault> {
        match &self.replicas {
            Some(replicas) => replicas.ask(&self.link, command).await,
            None => Ok(self.link.ask(&command).await?),
        }
    }
}
