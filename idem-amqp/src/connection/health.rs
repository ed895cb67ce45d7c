//! Whether a worker can do its job, for probes.
// docs/decisions/0012

use std::{fmt, sync::Arc, time::Duration};

use idem_core::store::PurgeRun;
use tokio::time::Instant;

use crate::wire::incident::Incidents;

mod condition;
mod gaps;
mod health_state;
mod outbox;
mod pause;
mod problem;
mod registrations;
mod state;
mod waiting;

pub(crate) use health_state::HealthState;
pub use problem::{Problem, ProblemKind};
use state::Phase;
pub(crate) use waiting::Waiting;

/// Whether a worker can do its job: [`Worker::health`](crate::Worker::health), taken before it runs.
///
/// A handle on the running worker; clones look at the same one, from any thread, without waiting
/// for anything.
///
/// | question | answer |
/// |---|---|
/// | *Does a restart help?* (liveness) | [`failing_for`](Self::failing_for) is longer than minutes |
/// | *Does it work?* (readiness, so that a rollout goes on) | [`is_ready`](Self::is_ready) |
/// | *What is wrong?* | [`problems`](Self::problems), or the handle's `Display` form in one line |
/// | *Is the store kept small?* | [`last_purge`](Self::last_purge) |
/// | *What happened so far?* | [`incidents`](Self::incidents) |
///
/// A worker heals by itself: it connects again for ever, consumes again what was deleted or changed,
/// and asks a store again that was away. So a restart helps only against what the worker cannot
/// see: credentials or addresses that have changed since it started, a network that this machine
/// alone has lost. Give it minutes, not seconds, and expect a restart to change nothing when the
/// broker or the store is down for everybody.
///
/// A worker is not failing while it drains, nor because a handler takes long. While it starts,
/// it is failing for as long as it has tried.
///
/// ```no_run
/// # use idem_amqp::{MemoryStore, prelude::*, worker::Health};
/// use std::{io::{Read as _, Write as _}, net::TcpListener, thread, time::Duration};
///
/// /// Answers `GET /` with 200, or with 503 when a restart is worth a try.
/// fn answer_probes(health: &Health) -> std::io::Result<()> {
///     for probe in TcpListener::bind("0.0.0.0:8080")?.incoming() {
///         let mut probe = probe?;
///         probe.set_read_timeout(Some(Duration::from_secs(1)))?;
///         let _request = probe.read(&mut [0; 1024]);
///         let status = match health.failing_for() {
///             Some(time) if time > Duration::from_mins(5) => "503 Service Unavailable",
///             _ => "200 OK",
///         };
///         let _ = write!(probe, "HTTP/1.1 {status}\r\nconnection: close\r\n\r\n{health}\n");
///     }
///     Ok(())
/// }
///
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
/// # #[idempotent(key = "order_id", scope = "orders.charge")]
/// # async fn charge(order: OrderPlaced) -> Result<(), Failed> { Ok(()) }
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let worker = Worker::builder(MemoryStore::new())
///     .consume::<charge>("orders.charge")
///     .build("amqp://127.0.0.1:5672/%2f")?;
/// let health = worker.health();
/// thread::spawn(move || answer_probes(&health));
/// worker.run_until(shutdown_signal()).await?;
/// # Ok(()) }
/// ```
///
/// Not everything that is wrong is worth a restart, or keeps a worker from its job:
///
/// | [`ProblemKind`] | [`failing_for`](Self::failing_for) | [`is_ready`](Self::is_ready) |
/// |---|---|---|
/// | `Disconnected`, `NotConsuming`, `StoreUnavailable`, `Ended` | counts | `false` |
/// | `Unpublished`: a restart would run messages again whose dead letters wait | does not count | `false` |
/// | `Unprotected`: a restart would forget what the store is yet to be told | does not count | `true` |
/// | `Blocked`: consuming and acknowledging go on, a restart ends no alarm | does not count | `true` |
/// | `StreamTruncated`: what is gone is gone, and the rest is handled | does not count | `true` |
/// | `StreamStalled`: a handler may take long, and a restart would begin it again | does not count | `true` |
/// | `StreamStopped`: a person has to mend what hinders the message, and it is tried again each minute anyway | does not count | `false` |
/// | `MarkBeyondEnd`: a person has to set the mark | does not count | `false` |
/// | `Gap`: other messages are handled, a restart brings no number | does not count | `true` |
/// | `OutboxUnreadable`, `OutboxDead`, `OutboxLate`: what is committed is safe, a restart publishes nothing sooner | does not count | `true` |
///
/// Whether the store answers is known from the messages that are claimed, and from what clients of sessions ask beside
/// their requests: a worker without any does not ask it, and one of whose messages none waits for the store is not
/// failing. What clients ask does not wait, but comes again; if the store failed them and none has come for five
/// minutes, that is forgotten. Nor does one whose handlers all run, or wait for the store to take their completions; it
/// is told by the log then, and here as soon as another message is claimed.
///
/// A worker whose handlers have an [outbox](crate::outbox) looks at it twice a minute. It is one for all workers of a
/// store: each of them tells the same.
#[derive(Debug, Clone)]
pub struct Health(Arc<HealthState>);

impl Health {
    pub(crate) fn of(health: Arc<HealthState>) -> Self {
        Self(health)
    }

    /// How long the worker has been unable to do its job; `None` if it is not. The longest of its
    /// [`problems`](Self::problems) counts, of those that a restart may help against.
    pub fn failing_for(&self) -> Option<Duration> {
        let problems = self.problems().into_iter();
        let failures = problems.filter(|problem| problem.kind.may_need_a_restart());
        failures.map(|problem| problem.lasting).max()
    }

    /// Whether it consumes all its queues, and can be done with their messages. `false` before it
    /// runs, while it drains, and after that.
    pub fn is_ready(&self) -> bool {
        let state = self.0.state();
        let problems = state.problems(Instant::now());
        matches!(state.phase, Phase::Running) && !problems.iter().any(|one| one.kind.hinders())
    }

    /// What is wrong now: empty if nothing is, or the worker is not meant to do its job.
    pub fn problems(&self) -> Vec<Problem> {
        self.0.state().problems(Instant::now())
    }

    /// Host, port and vhost of the node that it consumes from, if it is connected.
    pub fn broker(&self) -> Option<String> {
        self.0.state().broker.clone()
    }

    /// Its queues, and for how long each has been consumed without a break; `None` for one that is
    /// not.
    pub fn queues(&self) -> Vec<(String, Option<Duration>)> {
        let now = Instant::now();
        let state = self.0.state();
        let queues = state.queues.iter();
        queues
            .map(|queue| (queue.name.clone(), queue.consuming.well_for(now)))
            .collect()
    }

    /// When it last purged its store, and what of it it removed; `None` before the first time, or if it leaves that
    /// [to others](crate::WorkerBuilder::purge_never).
    pub fn last_purge(&self) -> Option<PurgeRun> {
        self.0.state().purging.as_ref()?.last()
    }

    /// What has happened to its connections so far.
    pub fn incidents(&self) -> Incidents {
        self.0.incidents()
    }
}

/// `consuming orders from one:5672 (vhost `/`)`, or what is wrong, in one line.
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state();
        match state.phase {
            Phase::Built => return f.write_str("not started"),
            Phase::Draining => return f.write_str("draining"),
            Phase::Drained => return f.write_str("drained"),
            Phase::Running | Phase::Ended(_) => {}
        }
        let problems = state.problems(Instant::now());
        if problems.is_empty() {
            let queues: Vec<_> = state
                .queues
                .iter()
                .map(|queue| queue.name.as_str())
                .collect();
            let broker = state.broker.as_deref().unwrap_or_default();
            return write!(f, "consuming {} from {broker}", queues.join(", "));
        }
        for (at, problem) in problems.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
