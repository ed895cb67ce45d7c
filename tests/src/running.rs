//! A worker in this process, and the balance it ends with.

use idem_amqp::{
    AmqpUrls, RunError, Store, Worker, WorkerBuilder,
    executor::ExecutionKind,
    worker::{Health, ReplyOutcome, Settled, Settlement, WorkerStats},
};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    journal::{Journal, eventually, within},
    log::Log,
    metered::Metered,
};

/// A message that the worker settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The queue it came from.
    pub queue: String,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// How it ended.
    pub kind: ExecutionKind,
    /// How it would have ended if it were not only observed.
    pub would_have_been: Option<ExecutionKind>,
    /// Which attempt ran.
    pub attempt: Option<u32>,
    /// What went wrong.
    pub error: Option<String>,
    /// What the broker was told.
    pub settlement: Settlement,
    /// Whether it was a dead letter that was sent again.
    pub replay: bool,
    /// What became of its reply.
    pub reply: Option<ReplyOutcome>,
}

impl From<&Settled<'_>> for Ended {
    fn from(settled: &Settled<'_>) -> Self {
        Self {
            queue: settled.queue.into(),
            key: settled.key.map(ToString::to_string),
            kind: settled.kind,
            would_have_been: settled.would_have_been,
            attempt: settled.attempt,
            error: settled.error.map(Into::into),
            settlement: settled.settlement,
            replay: settled.replay,
            reply: settled.reply,
        }
    }
}

/// A worker that runs until it is stopped.
#[derive(Debug)]
pub struct Running {
    /// The messages that it settled so far.
    pub settled: Journal<Ended>,
    health: Option<Health>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<WorkerStats, RunError>>,
}

impl Running {
    /// Starts a worker.
    pub fn start<S, St>(worker: WorkerBuilder<S, St>, urls: impl Into<AmqpUrls>) -> Self
    where
        S: Store,
        St: Send + Sync + 'static,
    {
        let settled = Journal::default();
        let journal = settled.clone();
        let worker = worker.on_settled(move |settled| journal.write(settled.into()));
        let worker = worker.build(urls);
        let health = worker.as_ref().ok().map(Worker::health);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stopped = async { stopped.await.unwrap_or_default() };
            worker?.run_until(stopped).await
        });
        Self {
            settled,
            health,
            stop,
            task,
        }
    }

    /// Whether it can do its job.
    ///
    /// # Panics
    /// If it could not be built.
    pub fn health(&self) -> &Health {
        self.health.as_ref().expect("a worker that was built")
    }

    /// Waits until its health is so.
    pub async fn until(&self, awaited: &str, so: impl Fn(&Health) -> bool) {
        let health = self.health();
        eventually(awaited, async || {
            if so(health) {
                return Ok(());
            }
            Err(health.to_string())
        })
        .await;
    }

    /// Waits until this many messages have ended in this kind.
    pub async fn ended(&self, kind: ExecutionKind, count: usize) {
        let awaited = format!("{count} messages end as {kind}");
        let enough = |settled: &[Ended]| {
            let of_this_kind = settled.iter().filter(|ended| ended.kind == kind);
            of_this_kind.count() >= count
        };
        self.settled.until(&awaited, enough).await;
    }

    /// Waits until the worker fails.
    ///
    /// # Panics
    /// If it does not.
    pub async fn failed(self) -> RunError {
        let ended = within("the worker fails", self.task).await;
        let balance = ended.expect("the worker does not panic");
        balance.expect_err("the worker fails")
    }

    /// Tells the worker to stop, waits until it has drained, and returns its balance.
    ///
    /// # Panics
    /// If it fails, or its balance is not even.
    pub async fn stop(self) -> WorkerStats {
        let _ = self.stop.send(());
        let stopped = within("the worker drains", self.task).await;
        let balance = stopped
            .expect("the worker does not panic")
            .expect("the worker does not fail");
        assert!(balance.is_balanced(), "uneven: {balance}");
        balance
    }

    /// Drops the worker where it is, without draining: as if its process had ended.
    pub async fn vanish(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Every delivery ended in exactly these kinds.
///
/// # Panics
/// If any other number of messages ended in any kind.
#[track_caller]
pub fn assert_balance<const N: usize>(balance: &WorkerStats, expected: [(ExecutionKind, u64); N]) {
    assert!(balance.is_balanced(), "uneven: {balance}");
    let occurred: Vec<_> = balance.iter().filter(|(_, count)| *count > 0).collect();
    let mut expected: Vec<_> = expected.into_iter().collect();
    expected.sort();
    assert_eq!(occurred, expected, "the balance, and the one expected");
}

/// So many deliveries were dropped: in the balance, as a metric, and in the log.
///
/// # Panics
/// If it was another number.
#[track_caller]
pub fn assert_dropped(balance: &WorkerStats, metered: &Metered, log: &Log, expected: usize) {
    let counted = [
        balance.dropped(),
        metered.sum("idem_settlements_total", &[("settlement", "dropped")]),
    ];
    assert_eq!(counted, [expected as u64; 2], "in the balance, as a metric");
    let text = log.text();
    let told = text.lines().filter(|line| {
        line.contains(" WARN ") && line.contains("it is dropped: acknowledged, and kept nowhere")
    });
    assert_eq!(told.count(), expected, "{text}");
}
