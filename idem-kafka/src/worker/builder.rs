//! Takes together what a worker is made of.

use std::{
    any::{TypeId, type_name},
    collections::{HashMap, HashSet},
    fmt,
    marker::PhantomData,
    ptr,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use idem_core::{
    __telemetry::LogLines,
    Executor,
    executor::RunsOn,
    handler::Handler,
    store::{Purge, PurgeTask, StreamStore},
};
use tokio::sync::Semaphore;

use super::{KafkaWorker, StartPurge};
use crate::{
    BuildError, Cluster, Health, OnFailure, RunError, Settled, Topic, WorkerStats,
    runner::{HandlerRunner, RunHandler},
    tally::{Observer, Tally},
};

const GRACE: Duration = Duration::from_secs(15);

/// Kafka's limit for the name of a topic, in bytes.
const LONGEST_NAME: usize = 249;

/// A handler that is to read a topic.
pub(super) struct Subscription {
    pub(super) topic: Topic,
    pub(super) scope: &'static str,
    handler: (TypeId, &'static str),
    /// By which the handler's own table records what it has done, if that does.
    constraint: Option<&'static str>,
    is_numbered: bool,
    pub(super) runner: Arc<dyn RunHandler>,
}

impl Subscription {
    pub(super) fn dead_letters(&self) -> String {
        let named = self.topic.dead_letters.clone();
        named.unwrap_or_else(|| format!("{}.{}.dead", self.topic.name, self.scope))
    }

    pub(super) fn retries(&self) -> Option<String> {
        self.topic.retries.as_ref().map(|(name, _)| name.clone())
    }

    /// Its consumer group.
    pub(super) fn group(&self) -> &str {
        self.topic.group.as_deref().unwrap_or(self.scope)
    }

    /// The topics that it reads.
    fn sources(&self) -> impl Iterator<Item = String> {
        [self.topic.name.clone()].into_iter().chain(self.retries())
    }

    /// All topics that it reads or writes.
    pub(super) fn topics(&self) -> impl Iterator<Item = String> {
        self.sources().chain([self.dead_letters()])
    }
}

/// A worker in the making: its store, its state, its handlers.
#[must_use]
pub struct KafkaWorkerBuilder<S, St = ()> {
    executor: Executor<S>,
    state: Arc<St>,
    subscriptions: Vec<Subscription>,
    grace: Duration,
    observer: Option<Observer>,
    purge: Option<StartPurge>,
    pub(super) owns_executor: bool,
}

impl<S: StreamStore> KafkaWorkerBuilder<S> {
    pub(super) fn new(executor: Executor<S>) -> Self {
        Self {
            executor,
            state: Arc::new(()),
            subscriptions: Vec::new(),
            grace: GRACE,
            observer: None,
            purge: None,
            owns_executor: false,
        }
    }

    /// The state from which later handlers take their `State<…>` parameters.
    pub fn state<St: Send + Sync + 'static>(self, state: St) -> KafkaWorkerBuilder<S, St> {
        KafkaWorkerBuilder {
            executor: self.executor,
            state: Arc::new(state),
            subscriptions: self.subscriptions,
            grace: self.grace,
            observer: self.observer,
            purge: self.purge,
            owns_executor: self.owns_executor,
        }
    }
}

impl<S: StreamStore, St: Send + Sync + 'static> KafkaWorkerBuilder<S, St> {
    /// Reads a topic with a handler: `.consume::<charge>("orders")`. Several handlers of one topic each get all of it:
    /// each has a consumer group and marks of its own.
    pub fn consume<H>(mut self, topic: impl Into<Topic>) -> Self
    where
        H: Handler<St>,
        H::Mode: RunsOn<S>,
    {
        let topic = topic.into();
        let concurrency = usize::from(topic.concurrency);
        let limit = H::Mode::limit(&self.executor);
        let slots = limit.map_or(concurrency, |limit| limit.clamp(1, concurrency));
        self.executor.register_handler::<H>();
        let runner = HandlerRunner::<H, S, St> {
            executor: self.executor.clone(),
            state: Arc::clone(&self.state),
            policy: topic.policy.unwrap_or(H::POLICY),
            on_failure: topic.on_failure,
            ladder: topic.retries.as_ref().map(|(_, ladder)| ladder.clone()),
            slots: Arc::new(Semaphore::new(slots)),
            log: LogLines::default(),
            outage: LogLines::of_an_outage(),
            has_met_unordered: AtomicBool::new(false),
            handler: PhantomData,
        };
        self.subscriptions.push(Subscription {
            topic,
            scope: H::SCOPE,
            handler: (TypeId::of::<H>(), type_name::<H>()),
            constraint: H::RECORDED_BY.map(|recorded| recorded.constraint()),
            is_numbered: H::SEQUENCE.is_some(),
            runner: Arc::new(runner),
        });
        self
    }

    /// How long running handlers may take to finish after the shutdown signal; 15 s unless set. Then they are dropped,
    /// and other workers take over when their leases have run out. To leave its groups a worker takes up to 11 s more, if
    /// Kafka does not answer.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Calls `observer` for every record that is done with, from the task that handled it.
    pub fn on_settled(mut self, observer: impl Fn(&Settled<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Removes from the store what its retention has ended for, every so often: every hour unless set.
    pub fn purge_every(mut self, interval: Duration) -> Self
    where
        S: Purge + Clone,
    {
        let store = self.executor.store().clone();
        self.purge = Some(Arc::new(move || PurgeTask::spawn(store.clone(), interval)));
        self
    }

    /// Leaves the purging of the store to others.
    pub fn purge_never(mut self) -> Self {
        self.purge = None;
        self
    }

    /// Makes the worker. Nothing is connected yet.
    ///
    /// # Errors
    /// If the worker cannot have these topics and handlers together, or the cluster's settings are not for it.
    pub fn build(self, cluster: impl Into<Cluster>) -> Result<KafkaWorker, BuildError> {
        let cluster = cluster.into();
        cluster.check()?;
        check(&self.subscriptions)?;
        let (executor, owns_executor) = (self.executor, self.owns_executor);
        Ok(KafkaWorker {
            cluster,
            subscriptions: self.subscriptions,
            grace: self.grace,
            health: Health::default(),
            tally: Arc::new(Tally::new(self.observer)),
            purge: self.purge,
            sample: {
                let executor = executor.clone();
                Arc::new(move || executor.sample())
            },
            close: owns_executor
                .then(|| -> Box<dyn Fn() + Send + Sync> { Box::new(move || executor.close()) }),
        })
    }

    /// [Builds](Self::build) the worker and [runs](KafkaWorker::run_until) it.
    ///
    /// # Errors
    /// Those of both.
    ///
    /// # Cancel safety
    /// That of [`KafkaWorker::run_until`].
    pub async fn run_until(
        self,
        cluster: impl Into<Cluster>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<WorkerStats, RunError> {
        self.build(cluster)?.run_until(shutdown).await
    }
}

impl<S, St> fmt::Debug for KafkaWorkerBuilder<S, St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topics = self.subscriptions.iter().map(|one| &one.topic.name);
        f.debug_struct("KafkaWorkerBuilder")
            .field("topics", &topics.collect::<Vec<_>>())
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}

/// Whether these handlers and topics can be together.
fn check(subscriptions: &[Subscription]) -> Result<(), BuildError> {
    if subscriptions.is_empty() {
        return Err(BuildError::NothingToConsume);
    }
    let (mut scopes, mut constraints) = (HashMap::new(), HashMap::new());
    // Each topic with the handlers that read it, and with their groups.
    let (mut read, mut shared) = (HashSet::new(), HashSet::new());
    for one in subscriptions {
        for topic in one.topics() {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            if topic.is_empty() || topic.len() > LONGEST_NAME || !topic.bytes().all(is_name) {
                return Err(BuildError::TopicName { topic });
            }
        }
        for topic in one.sources() {
            // Dead letters of several topics may go to one, and several handlers may read one.
            let is_for_letters = subscriptions
                .iter()
                .any(|other| other.dead_letters() == topic);
            let others = subscriptions.iter().filter(|other| !ptr::eq(*other, one));
            let mut others = others.filter_map(Subscription::retries);
            let is_for_retries = Some(&topic) == one.retries().as_ref() && topic == one.topic.name;
            if is_for_letters || is_for_retries || others.any(|retries| retries == topic) {
                return Err(BuildError::TopicTwice { topic });
            }
        }
        let topic = one.topic.name.clone();
        if !read.insert((topic.clone(), one.scope)) {
            return Err(BuildError::TopicTwice { topic });
        }
        if !shared.insert((topic.clone(), one.group())) {
            let group = one.group().to_owned();
            return Err(BuildError::GroupTwice { topic, group });
        }
        if one.topic.on_failure == OnFailure::Stop && one.topic.retries.is_some() {
            let topic = one.topic.name.clone();
            return Err(BuildError::StopsAndRetries { topic });
        }
        if one.is_numbered {
            let topic = one.topic.name.clone();
            return Err(BuildError::Numbered { topic });
        }
        let (id, name) = one.handler;
        let (other, other_name) = *scopes.entry(one.scope).or_insert((id, name));
        if other != id {
            return Err(BuildError::ScopeTwice {
                scope: one.scope.into(),
                one: other_name.into(),
                other: name.into(),
            });
        }
        if let Some(constraint) = one.constraint {
            let (other, other_name) = *constraints.entry(constraint).or_insert((id, name));
            if other != id {
                return Err(BuildError::ConstraintTwice {
                    constraint: constraint.into(),
                    one: other_name.into(),
                    other: name.into(),
                });
            }
        }
        for topic in one.sources() {
            let longest = (Arc::from(topic.as_str()), i32::MAX);
            if one.runner.marks(&longest, one.topic.takeover).is_err() {
                return Err(BuildError::MarkName { topic });
            }
        }
    }
    Ok(())
}
