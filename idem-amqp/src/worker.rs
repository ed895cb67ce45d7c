//! Consumes queues with idempotent handlers, until told to stop.
//!
//! You need it to give one queue [several handlers](Routes), or to watch a worker: its [`Health`] for a probe, each
//! delivery as it is [settled](Settled), the [statistics](WorkerStats) of its life.
//!
//! ```
//! use idem_amqp::{MemoryStore, Worker, executor::ExecutionKind, worker::{Settled, Settlement}};
//!
//! fn watch(settled: &Settled<'_>) {
//!     if let Settlement::DeadLetter(reason) = settled.settlement {
//!         eprintln!("{} gave up {:?}: {reason:?}", settled.queue, settled.key);
//!     } else if settled.kind == ExecutionKind::Duplicate {
//!         println!("a copy of {:?}", settled.key);
//!     }
//! }
//!
//! let worker = Worker::builder(MemoryStore::new()).on_settled(watch);
//! # drop(worker);
//! ```

use std::{fmt, sync::Arc, time::Duration};

use idem_core::{
    Executor,
    store::{Purge, PurgeTask},
};
use tokio_util::sync::CancellationToken;

use crate::{
    connection::{Brokers, health::HealthState},
    doctor::Doctor,
    error::RunError,
    outbox::SharedOutbox,
};

mod ack_sender;
mod arrival;
mod assembly;
mod builder;
mod channel_context;
mod channels;
mod circumstances;
mod consumer;
mod delivery_processor;
mod doctor;
mod engine;
mod fitness;
mod gauges;
mod grace;
mod handler_runner;
mod idle;
mod in_order;
mod lanes;
mod no_route;
mod outbox;
mod outgoing;
mod registrar;
mod replier;
mod replying;
mod route;
mod session_requests;
mod stats;
mod stream;
mod subscription;
mod supervisor;
mod topology_repair;
#[cfg(feature = "testing")]
pub mod unconnected;
mod waiting_deliveries;
mod window;

pub use crate::{
    connection::health::{Health, Problem, ProblemKind},
    wire::{Incident, Incidents, ReplyOutcome, ReplyStats, Settled},
};
use assembly::Assembly;
pub use builder::{Routes, WorkerBuilder};
use delivery_processor::Observer;
use doctor::StartCheck;
use engine::Engine;
use gauges::Gauges;
use grace::Grace;
#[doc(inline)]
pub use idem_core::settlement::{LadderError, Settlement};
use outbox::WorkersOutbox;
use stats::Counters;
pub use stats::WorkerStats;
use subscription::Subscription;
use supervisor::Supervisor;

/// Consumes queues with idempotent handlers.
///
/// [`Worker::builder`] takes the store, the state and the handlers; [`build`](WorkerBuilder::build)
/// checks them, without a connection; [`run_until`](Self::run_until) consumes.
///
/// ```no_run
/// # use idem_amqp::{MemoryStore, prelude::*};
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
/// # #[idempotent(key = "order_id", scope = "orders.charge")]
/// # async fn charge(order: OrderPlaced) -> Result<(), Failed> { Ok(()) }
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let worker = Worker::builder(MemoryStore::new())
///     .consume::<charge>("orders.charge")
///     .build(["amqp://one/%2f", "amqp://two/%2f", "amqp://three/%2f"])?;
/// let balance = worker.run_until(shutdown_signal()).await?;
/// println!("{balance}");
/// # Ok(()) }
/// ```
// docs/decisions/0012
#[must_use = "a worker does nothing until it runs"]
pub struct Worker {
    pub(crate) brokers: Brokers,
    pub(crate) subscriptions: Vec<Subscription>,
    doctor: Arc<Doctor>,
    health: Arc<HealthState>,
    engine: Arc<dyn Engine>,
    grace: Duration,
    idle: Duration,
    observer: Option<Observer>,
    purge: Option<StartPurge>,
    expire: Option<StartPurge>,
    outbox: Option<WorkersOutbox>,
}

type StartPurge = Arc<dyn Fn() -> PurgeTask + Send + Sync>;

/// How long a worker that stops tells the store what was done unprotected, even if handlers have taken the whole
/// grace period.
const LAST_REPORTS: Duration = Duration::from_secs(1);

impl Worker {
    /// Starts a worker on this store. It purges the store [every hour](WorkerBuilder::purge_every), unless told
    /// otherwise.
    pub fn builder<S: Purge + Clone>(store: S) -> WorkerBuilder<S> {
        WorkerBuilder::new(Executor::new(store)).purge_every(WorkerBuilder::<S>::DEFAULT_PURGE)
    }

    /// A handle that tells whether the worker can do its job, for probes.
    pub fn health(&self) -> Health {
        Health::of(Arc::clone(&self.health))
    }

    /// Consumes until `shutdown` resolves, then drains: no handler is started, running ones may
    /// finish within the grace period, finished messages are acknowledged, the rest returned. What
    /// is left of the grace period is for telling the store what was done while it was away.
    ///
    /// A broker that cannot be reached, at the start or later, is waited for.
    ///
    /// # Errors
    /// At the start only: for mistakes that waiting does not cure. See [`RunError`].
    ///
    /// # Cancel safety
    /// Dropping this stops the worker without draining; its messages come back to their queues,
    /// and its keys are free when their leases run out.
    pub async fn run_until(
        mut self,
        shutdown: impl Future<Output = ()>,
    ) -> Result<WorkerStats, RunError> {
        let _run = self.health.run();
        let purging = self.purge.as_ref().map(|start| start());
        if let Some(purging) = &purging {
            self.health.purges(purging.runs());
        }
        let _expiring = self.expire.as_ref().map(|start| start());
        let outbox = self.outbox.take();
        let published = outbox.as_ref().map(WorkersOutbox::counters);
        let table = outbox.as_ref().map(WorkersOutbox::table);
        let counters = Arc::new(Counters::beside(published));
        let outbox = outbox.map(|outbox| outbox.start(&self.brokers, &self.health));
        let deadline = CancellationToken::new();
        let _dropped_tasks_stop = deadline.clone().drop_guard();
        let grace = Arc::new(Grace::new(self.grace));
        let supervisor = self.supervisor(&counters, &deadline, &grace, table);
        let gauges = Arc::new(self.gauges(&supervisor));
        let _kept = Arc::clone(&gauges).keep();
        let stop = async {
            shutdown.await;
            tracing::info!("draining");
            grace.end();
            self.health.drain();
            self.engine.close();
            supervisor.draining.cancel();
            std::future::pending::<()>().await;
        };
        let run = async {
            fitness::check(&self.subscriptions, &supervisor.draining).await?;
            supervisor.run().await
        };
        let ran = tokio::select! {
            // The stop first: a signal is listened for before anything is connected. Else one that comes right at the
            // start would end the process.
            biased;
            () = stop => unreachable!("the stop never ends"),
            ran = run => ran,
        };
        supervisor.finish().await;
        if let Some(outbox) = outbox {
            outbox.finish(grace.left()).await;
        }
        let reports = self.engine.report(grace.left().max(LAST_REPORTS)).await;
        supervisor.interrupted();
        gauges.sample();
        ran.map(|()| counters.balance(reports, self.health.incidents()))
    }

    fn gauges(&self, supervisor: &Supervisor) -> Gauges {
        Gauges {
            consumers: supervisor.consumers.clone(),
            engine: Arc::clone(&self.engine),
            health: Arc::clone(&self.health),
        }
    }

    fn supervisor(
        &self,
        counters: &Arc<Counters>,
        deadline: &CancellationToken,
        grace: &Arc<Grace>,
        outbox: Option<SharedOutbox>,
    ) -> Supervisor {
        let assembly = Assembly::new(self, counters, deadline, grace);
        Supervisor {
            session_requests: assembly.session_requests(),
            start_check: StartCheck::new(Arc::clone(&self.doctor), outbox),
            brokers: self.brokers.clone(),
            health: Arc::clone(&self.health),
            consumers: assembly.consumers(),
            draining: assembly.draining,
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues = subscription::by_queue(&self.subscriptions).map(|all| all[0].queue.name());
        f.debug_struct("Worker")
            .field("brokers", &self.brokers)
            .field("queues", &queues.collect::<Vec<_>>())
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
