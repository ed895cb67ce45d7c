//! Consumes queues with idempotent handlers, until told to stop.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, OnceLock},
    time::Duration,
};

use idem_core::{Executor, Handler, Mode as _, Purge, PurgeTask, RunsOn, Store, StoreOutage};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{Queue, connection::Broker, error::WorkerError, publisher::Publisher};

mod acker;
mod attend;
mod balance;
mod consumer;
mod desk;
mod limit;
mod mender;
mod outgoing;
mod settle;
mod settled;
mod supervisor;
mod window;

use attend::{Attend, Attendant};
pub use balance::Balance;
use balance::Counters;
use consumer::Consumer;
use desk::Room;
use mender::Mender;
use settle::{Clerk, Observer};
pub use settled::Settled;
use supervisor::Supervisor;

/// Consumes queues with idempotent handlers. See [`Worker::builder`].
#[derive(Debug)]
pub struct Worker(());

impl Worker {
    /// Starts a worker on this store.
    pub fn builder<S: Store>(store: S) -> WorkerBuilder<S> {
        WorkerBuilder {
            executor: Executor::new(store),
            state: Arc::new(()),
            subscriptions: Vec::new(),
            grace: WorkerBuilder::<S>::DEFAULT_GRACE,
            observer: None,
            purge: None,
        }
    }
}

/// A worker in the making: its store, its state, its handlers.
#[must_use]
pub struct WorkerBuilder<S, St = ()> {
    executor: Executor<S>,
    state: Arc<St>,
    subscriptions: Vec<Subscription>,
    grace: Duration,
    observer: Option<Observer>,
    purge: Option<Box<dyn FnOnce() -> PurgeTask + Send>>,
}

struct Subscription {
    queue: Queue,
    attendant: Arc<dyn Attend>,
    /// How many of its handlers the store lets run at once.
    limit: Option<usize>,
    /// Whether its handler is to fail open, and cannot.
    fails_open_in_vain: bool,
}

impl<S: Store> WorkerBuilder<S> {
    /// How long running handlers may take to finish after the shutdown signal, unless set.
    pub const DEFAULT_GRACE: Duration = Duration::from_secs(15);

    /// The state from which later handlers take their `State<…>` parameters.
    pub fn state<St: Send + Sync + 'static>(self, state: St) -> WorkerBuilder<S, St> {
        WorkerBuilder {
            executor: self.executor,
            state: Arc::new(state),
            subscriptions: self.subscriptions,
            grace: self.grace,
            observer: self.observer,
            purge: self.purge,
        }
    }
}

impl<S: Store, St: Send + Sync + 'static> WorkerBuilder<S, St> {
    /// Consumes a queue with a handler: `.consume::<charge>("orders.charge")`.
    ///
    /// A `&str` is a queue that the worker declares, see [`Queue`].
    pub fn consume<H>(mut self, queue: impl Into<Queue>) -> Self
    where
        H: Handler<St>,
        H::Mode: RunsOn<S>,
    {
        let queue = queue.into();
        let policy = queue.policy_or(H::POLICY);
        let attendant = Attendant::<H, S, St> {
            executor: self.executor.clone(),
            state: Arc::clone(&self.state),
            policy,
            handler: PhantomData,
        };
        let fails_open = policy.store_outage() == StoreOutage::FailOpen;
        self.subscriptions.push(Subscription {
            queue,
            limit: H::Mode::limit(&self.executor),
            fails_open_in_vain: fails_open && !H::Mode::CAN_FAIL_OPEN,
            attendant: Arc::new(attendant),
        });
        self
    }

    /// How long running handlers may take to finish after the shutdown signal; 15 s unless set.
    /// Then they are dropped, and other workers take over when their leases have run out.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How many bytes may be remembered of what handlers that fail open did while the store was
    /// away, until the store is told of it; 64 MiB unless set. When it is full, further messages
    /// wait for the store.
    pub fn local_memory(mut self, bytes: usize) -> Self {
        self.executor = self.executor.local_memory(bytes);
        self
    }

    /// Calls `observer` for every message that ended, from the task that settled it.
    pub fn on_settled(mut self, observer: impl Fn(&Settled<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Removes from the store what its retention has ended for, every so often.
    pub fn purge_every(mut self, interval: Duration) -> Self
    where
        S: Purge + Clone,
    {
        let store = self.executor.store().clone();
        self.purge = Some(Box::new(move || PurgeTask::spawn(store, interval)));
        self
    }

    /// Consumes until `shutdown` resolves, then drains: no handler is started, running ones may
    /// finish within the grace period, finished messages are acknowledged, the rest returned. What
    /// is left of the grace period is for telling the store what was done while it was away.
    ///
    /// A broker that cannot be reached, at the start or later, is waited for.
    ///
    /// # Errors
    /// At the start only: for mistakes that waiting does not cure. See [`WorkerError`].
    ///
    /// # Cancel safety
    /// Dropping this stops the worker without draining; its messages come back to their queues,
    /// and its keys are free when their leases run out.
    pub async fn run_until(
        self,
        amqp_url: &str,
        shutdown: impl Future<Output = ()>,
    ) -> Result<Balance, WorkerError> {
        check(&self.subscriptions)?;
        let broker =
            Broker::parse(amqp_url).map_err(|reason| WorkerError::InvalidUrl { reason })?;
        for Subscription { queue, limit, .. } in &self.subscriptions {
            limit::tell(queue, *limit);
        }
        let _purging = self.purge.map(|start| start());
        let counters = Arc::new(Counters::default());
        let draining = CancellationToken::new();
        let deadline = CancellationToken::new();
        let _dropped_tasks_stop = deadline.clone().drop_guard();
        let publisher = Publisher::lazy(broker.clone());
        let told_to_stop = OnceLock::new();
        let consumers: Vec<_> = (self.subscriptions.into_iter())
            .map(|subscription| {
                let Subscription {
                    queue, attendant, ..
                } = subscription;
                Arc::new(Consumer {
                    room: Room::new(queue.concurrency(), queue.held_cap()),
                    clerk: Arc::new(Clerk {
                        mender: Mender::new(publisher.clone(), queue.clone()),
                        queue,
                        attendant,
                        publisher: publisher.clone(),
                        counters: Arc::clone(&counters),
                        observer: self.observer.clone(),
                        deadline: deadline.clone(),
                    }),
                    tasks: TaskTracker::new(),
                    draining: draining.clone(),
                    grace: self.grace,
                })
            })
            .collect();
        let supervisor = Supervisor {
            broker,
            consumers,
            draining: draining.clone(),
        };
        let stop = async {
            shutdown.await;
            tracing::info!("draining");
            told_to_stop.get_or_init(Instant::now);
            self.executor.close();
            draining.cancel();
            std::future::pending::<()>().await;
        };
        let ran = tokio::select! {
            ran = supervisor.run() => ran,
            () = stop => unreachable!("the stop never ends"),
        };
        supervisor.finish().await;
        let left = told_to_stop
            .get()
            .map_or(Duration::ZERO, |since: &Instant| {
                self.grace.saturating_sub(since.elapsed())
            });
        let reports = self.executor.report(left.max(LAST_REPORTS)).await;
        ran.map(|()| counters.balance(reports))
    }
}

/// For telling the store, even if handlers have taken the whole grace period.
const LAST_REPORTS: Duration = Duration::from_secs(1);

fn check(subscriptions: &[Subscription]) -> Result<(), WorkerError> {
    if subscriptions.is_empty() {
        return Err(WorkerError::NothingToConsume);
    }
    let mut names = std::collections::HashSet::new();
    for Subscription {
        queue,
        fails_open_in_vain,
        ..
    } in subscriptions
    {
        let name = queue.name();
        if name.is_empty() || name.len() > 250 || queue.dead_letter_queue().len() > 255 {
            return Err(WorkerError::QueueName { queue: name.into() });
        }
        if !names.insert(name) {
            return Err(WorkerError::QueueTwice { queue: name.into() });
        }
        if let Some(reason) = queue.impossible_retries() {
            return Err(WorkerError::NativeRetries {
                queue: name.into(),
                reason: reason.into(),
            });
        }
        if *fails_open_in_vain {
            return Err(WorkerError::AtomicFailsOpen { queue: name.into() });
        }
    }
    Ok(())
}

impl<S, St> fmt::Debug for WorkerBuilder<S, St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues: Vec<_> = self
            .subscriptions
            .iter()
            .map(|one| one.queue.name())
            .collect();
        f.debug_struct("WorkerBuilder")
            .field("queues", &queues)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
