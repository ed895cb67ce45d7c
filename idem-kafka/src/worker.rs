//! A worker: handlers, the topics that they read, and the store that remembers.
//!
//! It joins a consumer group for each topic, and starts a `partition` for each that the group assigns.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::Duration,
};

use idem_core::{
    __telemetry::LogLines,
    ErrorChain, Executor,
    handler::Backoff,
    store::{Purge, PurgeTask, StreamStore},
};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Cluster, Health, RunError, WorkerStats,
    consumed_topic::ConsumedTopic,
    group::{Assigned, Member},
    health::HandlerHealth,
    partition::{self, Partition},
    publisher::Publisher,
    tally::Tally,
    telemetry::RecordMeters,
    topic::Place,
};

mod builder;
mod joined;

pub use builder::KafkaWorkerBuilder;
use builder::Subscription;
use joined::{Joined, Membership};

type StartPurge = Arc<dyn Fn() -> PurgeTask + Send + Sync>;

/// Between two tries to find a topic in a cluster that does not answer.
const AGAIN: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));

/// For how long Kafka may not know of a topic that is there: a broker that has just started has not heard of it.
const UNKNOWN: Duration = Duration::from_secs(5);

/// How often a worker purges its store, unless said otherwise.
const PURGE: Duration = Duration::from_hours(1);

/// How often gauges are told.
const SAMPLE: Duration = Duration::from_secs(1);

/// Reads topics until it is told to stop.
pub struct KafkaWorker {
    cluster: Cluster,
    subscriptions: Vec<Subscription>,
    grace: Duration,
    health: Health,
    tally: Arc<Tally>,
    purge: Option<StartPurge>,
    /// Closes the executor, if it is this worker's own.
    close: Option<Box<dyn Fn() + Send + Sync>>,
    /// Has the executor's gauges tell how it is.
    sample: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for KafkaWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaWorker")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

impl KafkaWorker {
    /// Starts a worker on this store. It purges the store [every hour](KafkaWorkerBuilder::purge_every), unless told
    /// otherwise.
    pub fn builder<S: StreamStore + Purge + Clone>(store: S) -> KafkaWorkerBuilder<S> {
        let mut builder = Self::on(Executor::new(store));
        builder.owns_executor = true;
        builder.purge_every(PURGE)
    }

    /// Starts a worker on an executor that others use, too: a worker of `idem-amqp`, say. It does not purge the store.
    pub fn on<S: StreamStore>(executor: Executor<S>) -> KafkaWorkerBuilder<S> {
        KafkaWorkerBuilder::new(executor)
    }

    /// Tells how the worker is, for probes.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Reads until `shutdown` resolves, then drains: nothing is started, what runs may finish within the grace period,
    /// the marks are saved, and the partitions given back.
    ///
    /// It waits for a cluster that cannot be reached.
    ///
    /// # Errors
    /// If the client's settings are not valid, a topic does not exist, the store cannot do what a handler needs, or the
    /// client fails for good.
    ///
    /// # Cancel safety
    /// Dropped, it stops at once: handlers are dropped, and other workers take over when their leases have run out.
    pub async fn run_until(
        self,
        shutdown: impl Future<Output = ()>,
    ) -> Result<WorkerStats, RunError> {
        let _purging = self.purge.as_ref().map(|start| start());
        let publisher = Publisher::new(&self.cluster).map_err(RunError::Settings)?;
        let mut shutdown = std::pin::pin!(shutdown);
        let ran = tokio::select! {
            () = &mut shutdown => Ok(()),
            memberships = self.connect(&publisher) => match memberships {
                Ok(memberships) => self.serve(memberships, shutdown).await,
                Err(error) => Err(error),
            }
        };
        publisher.close().await;
        ran.map(|()| self.tally.stats())
    }

    /// A client for each topic, when all topics are there. Nothing is joined yet: who has joined must answer.
    async fn connect(&self, publisher: &Publisher) -> Result<Vec<Membership>, RunError> {
        let mut memberships = Vec::new();
        for one in &self.subscriptions {
            if let Err(reason) = one.runner.check().await {
                let scope = one.scope.into();
                return Err(RunError::Unfit { scope, reason });
            }
            let group = one.group();
            let sources = [
                Some((&one.topic.name, false)),
                one.topic.retries.as_ref().map(|(name, _)| (name, true)),
            ];
            for (name, is_retries) in sources.into_iter().flatten() {
                let made = Member::new(&self.cluster, group, name);
                let (member, assigned) = made.map_err(RunError::Settings)?;
                self.find(&member, one).await?;
                let mut topic = one.topic.clone();
                topic.name.clone_from(name);
                if is_retries {
                    // All that is there is for this handler.
                    topic.start_at = crate::StartAt::First;
                }
                memberships.push(Membership {
                    consumed: Arc::new(ConsumedTopic {
                        meters: RecordMeters::of(one.scope, &topic.name),
                        topic,
                        handler: one.scope,
                        dead_letters: one.dead_letters(),
                        retries: one.retries(),
                        is_retries,
                        runner: Arc::clone(&one.runner),
                        publisher: publisher.clone(),
                        failure_lines: LogLines::default(),
                    }),
                    member,
                    assigned,
                });
            }
        }
        Ok(memberships)
    }

    /// Looks for all topics of a subscription, until Kafka has told of each.
    async fn find(&self, member: &Member, one: &Subscription) -> Result<(), RunError> {
        let mut tries = 0;
        let dead_letters = one.dead_letters();
        for topic in one.topics() {
            let mut unknown = None;
            loop {
                match member.knows(&topic).await {
                    Ok(true) => break,
                    Ok(false) if unknown.get_or_insert_with(Instant::now).elapsed() < UNKNOWN => {
                        sleep(AGAIN.wait(1)).await;
                    }
                    Ok(false) => {
                        let hint = if topic == dead_letters {
                            ", or name another one with `.dead_letters(…)`"
                        } else {
                            ""
                        };
                        return Err(RunError::NoTopic { topic, hint });
                    }
                    Err(error) => {
                        tries += 1;
                        let wait = AGAIN.wait(tries);
                        let servers = self.cluster.servers();
                        tracing::warn!(servers, error = %ErrorChain::of(&error), ?wait, "Kafka cannot be reached; it is tried again");
                        sleep(wait).await;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads until it is to stop or a client has failed for good; then lets what runs end, and leaves.
    async fn serve(
        &self,
        memberships: Vec<Membership>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), RunError> {
        let mut joined = self.join(memberships)?;
        let running = self.health.set_running();
        let _sampling = self.start_sampling();
        tracing::info!(
            servers = self.cluster.servers(),
            topics = joined.count(),
            "consuming"
        );
        let ran = tokio::select! {
            () = shutdown => Ok(()),
            error = joined.until_failed() => Err(RunError::Fatal(error)),
        };
        tracing::info!("stopping");
        drop(running);
        joined.stop();
        if let Some(close) = &self.close {
            close();
        }
        joined.drain(self.grace).await;
        joined.leave().await;
        ran
    }

    fn join(&self, memberships: Vec<Membership>) -> Result<Joined, RunError> {
        let mut joined = Joined::new();
        for membership in memberships {
            let health = self.health.of(membership.consumed.handler);
            let one = joined.join(membership, health, &self.tally);
            one.map_err(RunError::Settings)?;
        }
        Ok(joined)
    }

    /// Tells the gauges, until the set is dropped.
    fn start_sampling(&self) -> JoinSet<()> {
        let sample = Arc::clone(&self.sample);
        let mut sampling = JoinSet::new();
        sampling.spawn(async move {
            loop {
                sample();
                sleep(SAMPLE).await;
            }
        });
        sampling
    }
}

/// What all partitions of a topic have in common.
struct Reader {
    consumed: Arc<ConsumedTopic>,
    member: Member,
    stopping: CancellationToken,
    cut_off: CancellationToken,
    health: HandlerHealth,
    tally: Arc<Tally>,
    tasks: TaskTracker,
}

/// Starts a partition for each that is assigned; ends when all have ended after the worker stops.
async fn read(mut assigned: mpsc::UnboundedReceiver<Assigned>, reader: Reader) {
    let mut partitions = JoinSet::new();
    // Cancelled when the last task of the partition has ended.
    let mut ended: HashMap<Place, CancellationToken> = HashMap::new();
    loop {
        let next = tokio::select! {
            () = reader.stopping.cancelled() => break,
            next = assigned.recv() => next,
        };
        let Some(Assigned { place, revoked }) = next else {
            break;
        };
        let ends = CancellationToken::new();
        let before = ended.insert(place.clone(), ends.clone());
        let partition = reader.partition(place, revoked);
        partitions.spawn(async move {
            let _ends = ends.drop_guard();
            if let Some(before) = before {
                // Two readings of a partition would share its queue.
                before.cancelled().await;
            }
            partition.run().await;
        });
        // Those that were taken away.
        while partitions.try_join_next().is_some() {}
    }
    while partitions.join_next().await.is_some() {}
}

impl Reader {
    fn partition(&self, place: Place, revoked: CancellationToken) -> Partition {
        Partition {
            consumed: Arc::clone(&self.consumed),
            member: self.member.clone(),
            place,
            revoked,
            stopping: self.stopping.clone(),
            cut_off: self.cut_off.clone(),
            health: self.health.clone(),
            tally: Arc::clone(&self.tally),
            tasks: self.tasks.clone(),
            claimed: Mutex::default(),
            short: Mutex::default(),
            silence: partition::SILENCE,
            renewed: AtomicU64::new(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests;
