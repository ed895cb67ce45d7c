//! Takes together what a worker is made of.

use std::{fmt, sync::Arc, time::Duration};

use idem_core::{
    Executor, Key, Store,
    executor::RunsOn,
    handler::{Enforcement, Handler, StoreOutage},
    store::{Purge, PurgeTask, SessionStore, StreamStore},
};

use super::{
    StartPurge, Subscription, Worker, WorkerStats, WorkersOutbox,
    delivery_processor::Observer,
    registrar::Registrar,
    stream::StreamSource,
    subscription::{self, InVain, Served},
};
use crate::wire::Settled;
use crate::{
    connection::{AmqpUrls, Brokers, health::HealthState},
    doctor::{self, Doctor},
    error::{BuildError, RunError},
    telemetry::StreamMeters,
    topology::Queue,
    wire::Sessions,
};

mod routes;
mod subscribing;

pub use routes::Routes;

/// A worker in the making: its store, its state, its handlers.
///
/// ```
/// use std::time::Duration;
/// use idem_amqp::{MemoryStore, Queue, prelude::*};
/// # #[derive(Clone)] struct Mailer;
/// # #[idempotent(key = message_id(), scope = "mails.send")]
/// # async fn send(_: String, State(_mailer): State<Mailer>) -> Result<(), Failed> { Ok(()) }
///
/// let worker = Worker::builder(MemoryStore::new())
///     .state(Mailer)
///     .consume::<send>(Queue::quorum("mails").prefetch(16))
///     .purge_every(Duration::from_mins(10))
///     .grace(Duration::from_secs(10))
///     .build("amqp://127.0.0.1:5672/%2f")?; // connects when it runs
/// # drop(worker);
/// # Ok::<_, idem_amqp::BuildError>(())
/// ```
#[must_use]
pub struct WorkerBuilder<S, St = ()> {
    executor: Executor<S>,
    state: Arc<St>,
    subscriptions: Vec<Subscription>,
    grace: Duration,
    idle: Duration,
    observer: Option<Observer>,
    purge: Option<StartPurge>,
    expire: Option<StartPurge>,
    replay_window: Duration,
    outbox: Option<WorkersOutbox>,
    /// The first thing that was wrong with what it was given, if that is known already.
    mistake: Option<BuildError>,
}

impl<S: Store> WorkerBuilder<S> {
    /// How long running handlers may take to finish after the shutdown signal, unless set.
    pub const DEFAULT_GRACE: Duration = Duration::from_secs(15);

    /// How often the worker purges its store, unless said otherwise.
    pub const DEFAULT_PURGE: Duration = Duration::from_hours(1);

    /// For how long a queue sends nothing before its consumer is renewed, unless said otherwise.
    pub const DEFAULT_IDLE: Duration = Duration::from_mins(1);

    pub(super) fn new(executor: Executor<S>) -> Self {
        Self {
            executor,
            state: Arc::new(()),
            subscriptions: Vec::new(),
            grace: Self::DEFAULT_GRACE,
            idle: Self::DEFAULT_IDLE,
            observer: None,
            purge: None,
            expire: None,
            replay_window: Duration::ZERO,
            outbox: None,
            mistake: None,
        }
    }

    /// The state from which later handlers take their `State<…>` parameters.
    pub fn state<St: Send + Sync + 'static>(self, state: St) -> WorkerBuilder<S, St> {
        self.shared_state(Arc::new(state))
    }

    /// The same, of a state that others have, too.
    pub(super) fn shared_state<St: Send + Sync + 'static>(
        self,
        state: Arc<St>,
    ) -> WorkerBuilder<S, St> {
        WorkerBuilder {
            executor: self.executor,
            state,
            subscriptions: self.subscriptions,
            grace: self.grace,
            idle: self.idle,
            observer: self.observer,
            purge: self.purge,
            expire: self.expire,
            replay_window: self.replay_window,
            outbox: self.outbox,
            mistake: self.mistake,
        }
    }
}

impl<S: Store, St: Send + Sync + 'static> WorkerBuilder<S, St> {
    /// Consumes a queue with a handler: `.consume::<charge>("orders.charge")`.
    ///
    /// A `&str` is a queue that the worker declares, see [`Queue`].
    pub fn consume<H>(self, queue: impl Into<Queue>) -> Self
    where
        H: Handler<St>,
        H::Mode: RunsOn<S>,
    {
        self.subscribe::<H>(queue.into(), None, None)
    }

    /// Consumes a queue with several handlers, one for each type of message:
    /// `.consume_routed("mails", Routes::by_type().on::<receipt>("order.charged").on::<sorry>("order.refunded"))`.
    ///
    /// [`Routes`] says how a message finds its handler, and what becomes of one that finds none. Handlers may be of any mode. Only one
    /// whose key is a `sequence(…)` needs a queue of its own: [`build`](Self::build) says so, as of routes that take
    /// the same.
    pub fn consume_routed(mut self, queue: impl Into<Queue>, routes: Routes<S, St>) -> Self {
        let queue = queue.into();
        if let Some(reason) = routes.objection() {
            let queue = queue.name().into();
            self.mistake
                .get_or_insert(BuildError::Routes { queue, reason });
            return self;
        }
        routes.subscribe(self, &queue)
    }

    /// Consumes a queue with a handler that is idempotent by nature: every message runs, copies too, and nothing is
    /// claimed, as with [`Enforcement::Plain`]. Retries, dead letters, timeouts and metrics are as ever.
    ///
    /// The handler may have a key, which is not asked for. It cannot be atomic, nor one whose key is a `sequence(…)`:
    /// [`build`](Self::build) says so.
    pub fn consume_plain<H>(self, queue: impl Into<Queue>) -> Self
    where
        H: Handler<St>,
        H::Mode: RunsOn<S>,
    {
        let queue = queue.into();
        let policy = queue.policy_or(H::POLICY).plain();
        self.subscribe::<H>(queue.policy(policy), None, None)
    }

    /// Reads a stream with a handler: `.consume_stream::<book>(Queue::stream("ledger"))`.
    ///
    /// The handler reads all of it, whatever other handlers do. One worker at a time reads; the others stand by. The
    /// store keeps the mark up to which all is done, and each start goes on from there. What fails goes to a queue of
    /// the handler's own, which is consumed, too: see [`Queue::stream`]. `docs/streams.md` tells the whole story.
    ///
    /// Of a [super stream](Queue::super_stream), each partition is read so, and workers share the partitions.
    ///
    /// Messages are handled once by the handler's key, as those of a queue are.
    pub fn consume_stream<H>(mut self, stream: Queue) -> Self
    where
        H: Handler<St>,
        H::Mode: RunsOn<S>,
        S: StreamStore,
    {
        let stream = stream.read_by(H::SCOPE);
        if let Some(reason) = stream.impossible_partitions() {
            let (queue, reason) = (stream.name().into(), reason.into());
            self.mistake
                .get_or_insert(BuildError::Stream { queue, reason });
            return self;
        }
        let partitions = stream.partitions().into_iter();
        let worker = partitions.fold(self, Self::read::<H>);
        match stream.failures() {
            Some(failures) => worker.subscribe::<H>(failures, None, None),
            None => worker,
        }
    }

    /// Reads one stream, with its own mark.
    fn read<H>(self, stream: Queue) -> Self
    where
        H: Handler<St>,
        H::Mode: RunsOn<S>,
        S: StreamStore,
    {
        let is_stream = stream.is_stream();
        let key = Key::new(H::SCOPE, stream.name());
        let executor = self.executor.clone();
        let mut worker = self.subscribe::<H>(stream, None, None);
        if let Some(last) = worker.subscriptions.last_mut() {
            match key {
                _ if !is_stream => last.in_vain = Some(InVain::Reads),
                Ok(stream) => {
                    let meters = StreamMeters::of(last.queue.name(), H::SCOPE);
                    last.source = Some(StreamSource {
                        meters: Arc::new(meters),
                        marks: executor.stream_marks(stream, last.queue.takeover()),
                    });
                }
                Err(_) => last.in_vain = Some(InVain::Marks),
            }
        }
        worker
    }

    /// Consumes a queue with a handler, whose clients may open sessions:
    /// `.consume_in_sessions::<grant>("leases", Sessions::default())`.
    ///
    /// A request of a session is handled once for its number, not for the handler's key, and its
    /// answer is kept until its client awaits it no longer or the session ends. Requests without a
    /// session, and messages that expect no reply, are handled as ever.
    ///
    /// Clients register and give signs of life on a queue of its own, `<queue>.sessions`, which the
    /// worker declares with the queue. That of a [`Queue::existing`] must exist too, durable, without
    /// a dead-letter target. While the worker runs it removes sessions that have ended from the
    /// store.
    ///
    /// The handler cannot be one that its own table records (`recorded_by`), nor one whose key is a
    /// `sequence(…)`, nor one that fails open or is only observed: [`build`](Self::build) says so.
    pub fn consume_in_sessions<H>(mut self, queue: impl Into<Queue>, sessions: Sessions) -> Self
    where
        H: Handler<St>,
        H::Mode: RunsOn<S>,
        S: SessionStore + Clone,
    {
        let queue = queue.into().in_sessions();
        let policy = queue.policy_or(H::POLICY);
        let hindrance = if H::SEQUENCE.is_some() {
            Some(
                "its handler's key is a place in a sequence, and its requests have theirs in sessions: consume it with `consume`, or make a handler with another key for the sessions",
            )
        } else if H::RECORDED_BY.is_some() {
            Some("its handler is recorded by its own table: leave `recorded_by` out")
        } else if policy.store_outage() == StoreOutage::FailOpen {
            Some(
                "its handler is to fail open, and sessions are known to the store alone: leave `store_outage` out of its policy",
            )
        } else if policy.enforcement() == Enforcement::Plain {
            Some(
                "its handler is plain, and clients of sessions count on what the store says: consume it with `consume_plain`, or leave `enforcement` out of its policy",
            )
        } else if policy.enforcement() == Enforcement::Observe {
            Some(
                "its handler is only to be observed, and clients of sessions count on what the store says: leave `enforcement` out of its policy, or consume it with `consume`",
            )
        } else {
            None
        };
        let served = Served {
            sessions,
            register: Arc::new(Registrar {
                executor: self.executor.clone(),
                scope: H::SCOPE,
                granted: sessions.granted(),
            }),
            hindrance,
        };
        let store = self.executor.store().clone();
        let others = self.served().map(|served| served.sessions);
        let intervals = others.chain([sessions]).map(|one| one.expires_every());
        let every = intervals.min().unwrap_or_default();
        self.expire = Some(Arc::new(move || {
            PurgeTask::spawn_for_sessions(store.clone(), every)
        }));
        self.subscribe::<H>(queue, Some(served), None)
    }

    fn served(&self) -> impl Iterator<Item = &Served> {
        let all = self.subscriptions.iter();
        all.filter_map(|one| one.served.as_ref())
    }

    /// How long running handlers may take to finish after the shutdown signal; 15 s unless set.
    /// Then they are dropped, and other workers take over when their leases have run out.
    ///
    /// It is one period for all handlers, and for telling the store what was done while it was away. A worker ends up
    /// to 7 s after it, 8 s if its handlers publish by an outbox: handlers that block their threads are waited for (2
    /// s), a broker that is silent is (2 s to drain, 2 s to close), and the store is told (1 s). So let Kubernetes'
    /// `terminationGracePeriodSeconds` be at least 10 s longer, and longer by the time of a `preStop` hook: with 15 s,
    /// the usual 30 s will do.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// For how long a queue may send nothing before its consumer is renewed, on a new channel; a minute unless set,
    /// at least a millisecond. It takes up to twice as long to notice.
    ///
    /// A broker can forget a consumer without a word: RabbitMQ 3.10 does when somebody else deletes a quorum queue and
    /// declares it again at once. A consumer some of whose messages have not ended is left alone until they have.
    pub fn renew_idle_after(mut self, pause: Duration) -> Self {
        self.idle = pause.max(Duration::from_millis(1));
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

    /// Removes from the store what its retention has ended for, every so often: every hour unless set.
    ///
    /// It begins at a random moment within the interval, and removes a thousand records at a time. So do all workers
    /// of a store; each removes what no other one is at. `.purge_every(…)` matters where keys come so fast, and are
    /// remembered so briefly, that those of an hour are many.
    pub fn purge_every(mut self, interval: Duration) -> Self
    where
        S: Purge + Clone,
    {
        let store = self.executor.store().clone();
        self.purge = Some(Arc::new(move || PurgeTask::spawn(store.clone(), interval)));
        self
    }

    /// Leaves the purging of the store to others: to `idem purge`, to a [`PurgeTask`], or to other workers. If nobody
    /// does it, keys stay for ever in a store that does not forget them by itself.
    pub fn purge_never(mut self) -> Self {
        self.purge = None;
        self
    }

    /// For how long after a message its publisher, or whoever sends old messages again, may send a
    /// copy of it; zero unless set. The doctor warns about handlers whose retention is too short
    /// for that. Dead letters that are sent again do not count: they are to run.
    pub fn replay_window(mut self, window: Duration) -> Self {
        self.replay_window = window;
        self
    }

    /// Makes the worker. Nothing is connected yet; the URLs are those of a broker, or of the nodes
    /// of a cluster, which are tried in turn: see [`AmqpUrls`].
    ///
    /// # Errors
    /// If a URL is not valid, or the worker cannot have these queues and handlers together: two different
    /// handlers with one scope, say.
    pub fn build(self, urls: impl Into<AmqpUrls>) -> Result<Worker, BuildError> {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        subscription::check(&self.subscriptions)?;
        let brokers = Brokers::parse(&urls.into())?;
        let queues = || subscription::by_queue(&self.subscriptions).map(|all| &all[0].queue);
        let controls: Vec<_> = queues().filter_map(Queue::control_queue).collect();
        let controls = controls.iter().map(String::as_str);
        let health = Arc::new(HealthState::of(queues().map(Queue::name).chain(controls)));
        let doctor = Doctor {
            forgets: doctor::store::forgets(self.executor.store()),
            left_to_others: self.purge.is_none() && doctor::store::is_purged(self.executor.store()),
            replay_window: self.replay_window,
            queues: subscription::checked_queues(&self.subscriptions),
        };
        Ok(Worker {
            doctor: Arc::new(doctor),
            brokers: brokers.watched_by(Arc::clone(&health)),
            health,
            subscriptions: self.subscriptions,
            engine: Arc::new(self.executor),
            grace: self.grace,
            idle: self.idle,
            observer: self.observer,
            purge: self.purge,
            expire: self.expire,
            outbox: self.outbox,
        })
    }

    /// [Builds](Self::build) the worker and [runs](Worker::run_until) it.
    ///
    /// # Errors
    /// Those of both.
    ///
    /// # Cancel safety
    /// That of [`Worker::run_until`].
    pub async fn run_until(
        self,
        urls: impl Into<AmqpUrls>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<WorkerStats, RunError> {
        self.build(urls)?.run_until(shutdown).await
    }
}

impl<S, St> fmt::Debug for WorkerBuilder<S, St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues = self.subscriptions.iter().map(|one| one.queue.name());
        f.debug_struct("WorkerBuilder")
            .field("queues", &queues.collect::<Vec<_>>())
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
