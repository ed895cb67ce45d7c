//! Answers that are given only once replicas have what they rest on.

use std::{num::NonZeroUsize, time::Duration};

use redis::{Cmd, Pipeline, RedisResult, Value, from_redis_value};
use tokio::sync::{mpsc, oneshot};

use super::{
    fault::{self, Fault},
    link::Link,
    script::Invocation,
};

/// How many replicas, and how long they may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quorum {
    pub(super) replicas: NonZeroUsize,
    pub(super) within: Duration,
}

/// Runs scripts on a connection of its own, on which `WAIT` keeps nobody else waiting. Calls that
/// come while one `WAIT` is under way go out together, before the next one.
#[derive(Debug, Clone)]
pub(super) struct Replicas(mpsc::UnboundedSender<Waiting>);

#[derive(Debug)]
struct Waiting {
    call: Invocation,
    caller: oneshot::Sender<Result<Value, Fault>>,
}

impl Replicas {
    /// Starts the task, which ends with the last clone of this.
    pub(super) fn spawn(link: Link, prefix: &str, quorum: Quorum) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let task = Task {
            link,
            barrier: format!("{prefix}:barrier"),
            quorum,
        };
        tokio::spawn(task.serve(receiver));
        Self(sender)
    }

    pub(super) async fn run(&self, call: Invocation) -> Result<Value, Fault> {
        let (caller, answer) = oneshot::channel();
        self.0
            .send(Waiting { call, caller })
            .map_err(|_| Fault::NoTask)?;
        answer.await.map_err(|_| Fault::NoTask)?
    }
}

struct Task {
    link: Link,
    barrier: String,
    quorum: Quorum,
}

impl Task {
    /// The most calls of one batch.
    const BATCH: usize = 512;
    /// How often a batch is sent again over a new connection after one that broke.
    const REPEATS: usize = 2;

    async fn serve(self, mut receiver: mpsc::UnboundedReceiver<Waiting>) {
        let mut batch = Vec::new();
        while receiver.recv_many(&mut batch, Self::BATCH).await > 0 {
            batch.retain(|waiting| !waiting.caller.is_closed());
            let answers = self.run(&batch).await;
            tell(batch.drain(..), answers);
        }
    }

    /// Runs all calls and waits for the replicas: an answer per call, or an error for all.
    async fn run(&self, batch: &[Waiting]) -> Result<Vec<RedisResult<Value>>, Fault> {
        let mut waited = self.send(batch, |call| call.by_digest().clone()).await?;
        let misses = |answer: &RedisResult<_>| answer.as_ref().is_err_and(fault::is_no_script);
        if waited.answers.iter().any(misses) {
            // All of them again, which does no harm: the same owners, the same tokens.
            waited = self.send(batch, Invocation::by_text).await?;
        }
        let Quorum { replicas, within } = self.quorum;
        if waited.confirmed < replicas.get() {
            return Err(Fault::TooFewReplicas {
                confirmed: waited.confirmed,
                replicas,
                within,
            });
        }
        Ok(waited.answers)
    }

    async fn send(
        &self,
        batch: &[Waiting],
        command: impl Fn(&Invocation) -> Cmd,
    ) -> RedisResult<Waited> {
        let mut pipeline = Pipeline::new();
        for waiting in batch {
            pipeline.add_command(command(&waiting.call));
        }
        self.add_wait(&mut pipeline);
        let mut answers = self.ask(&pipeline).await?;
        let confirmed = answers.pop().unwrap_or(Value::Nil).extract_error()?;
        answers.pop().unwrap_or(Value::Nil).extract_error()?;
        Ok(Waited {
            answers: answers.into_iter().map(Value::extract_error).collect(),
            confirmed: from_redis_value(confirmed)?,
        })
    }

    /// From Redis 7.2 on, `WAIT` covers what its own connection wrote last. So that it covers what
    /// the answers rest on, whoever wrote that, something is written after them.
    fn add_wait(&self, pipeline: &mut Pipeline) {
        pipeline
            .cmd("SET")
            .arg(&self.barrier)
            .arg("")
            .arg("PX")
            .arg(1000);
        // Zero would wait for ever.
        let within = self.quorum.within.as_millis().clamp(1, 1 << 31);
        pipeline
            .cmd("WAIT")
            .arg(self.quorum.replicas.get())
            .arg(u64::try_from(within).unwrap_or(1 << 31));
    }

    async fn ask(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        for _ in 0..Self::REPEATS {
            match self.link.ask_all(pipeline).await {
                Err(error) if fault::is_broken_connection(&error) => {}
                answers => return answers,
            }
        }
        self.link.ask_all(pipeline).await
    }
}

/// What came of a batch, and how many replicas have it.
struct Waited {
    answers: Vec<RedisResult<Value>>,
    confirmed: usize,
}

fn tell(batch: impl Iterator<Item = Waiting>, answers: Result<Vec<RedisResult<Value>>, Fault>) {
    // A caller that was dropped meanwhile does not care.
    match answers {
        Ok(answers) => batch.zip(answers).for_each(|(waiting, answer)| {
            let _ = waiting.caller.send(answer.map_err(Fault::from));
        }),
        Err(fault) => batch.for_each(|waiting| {
            let _ = waiting.caller.send(Err(fault.clone()));
        }),
    }
}
