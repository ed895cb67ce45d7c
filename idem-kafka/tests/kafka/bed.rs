//! A cluster, topics of a test's own, and workers on them.

use std::{
    collections::BTreeMap,
    env,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use idem_core::{
    Failed, State,
    executor::{ExecutionKind, RunsOn},
    handler::Handler,
    idempotent,
    store::{Owner, Purge, StreamStore},
};
use idem_kafka::{Cluster, Health, KafkaWorker, RunError, Topic, WorkerStats};
use rdkafka::{
    ClientConfig, Message as _,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, CommitMode, Consumer as _},
    message::{Header, Headers as _, OwnedHeaders},
    mocking::MockCluster,
    producer::{DefaultProducerContext, FutureProducer, FutureRecord, Producer as _},
};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};

/// For whatever is to happen: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A handler whose worker has died is taken over after this: longer than a busy machine may stall a worker that lives.
pub(crate) const TAKEOVER: Duration = Duration::from_secs(9);

pub(crate) struct Bed {
    /// `None` on a cluster of the user's.
    pub(crate) mock: Option<MockCluster<'static, DefaultProducerContext>>,
    pub(crate) servers: String,
    producer: FutureProducer,
    /// Of all topics and groups of the test.
    name: String,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let mut mock = None;
        let servers = env::var("KAFKA_URL").unwrap_or_else(|_| {
            let cluster = mock.insert(MockCluster::new(1).unwrap());
            cluster.bootstrap_servers()
        });
        let producer = ClientConfig::new()
            .set("bootstrap.servers", &servers)
            .set("linger.ms", "1")
            .create()
            .unwrap();
        let random = u128::from_be_bytes(*Owner::new().as_bytes());
        Self {
            mock,
            servers,
            producer,
            name: format!("idem-{random:032x}"),
        }
    }

    /// Makes a topic of the test's own, and those for what fails.
    pub(crate) async fn topic(&self, name: &str, partitions: i32) -> Topic {
        let topic = format!("{}.{name}", self.name);
        let (dead, again) = (format!("{topic}.dead"), format!("{topic}.retry"));
        self.create(&topic, partitions).await;
        self.create(&dead, 1).await;
        self.create(&again, 1).await;
        Topic::new(topic.clone())
            .group(topic)
            .dead_letters(dead)
            .takeover_after(TAKEOVER)
    }

    pub(crate) async fn create(&self, topic: &str, partitions: i32) {
        if let Some(mock) = &self.mock {
            return mock.create_topic(topic, partitions, 1).unwrap();
        }
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", &self.servers)
            .create()
            .unwrap();
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        admin
            .create_topics(&[new], &AdminOptions::new())
            .await
            .unwrap();
    }

    /// Publishes a record, and says its offset.
    pub(crate) async fn send(
        &self,
        topic: &str,
        partition: i32,
        key: Option<&str>,
        body: &str,
    ) -> u64 {
        self.send_with(topic, partition, key, body, &[]).await
    }

    pub(crate) async fn send_with(
        &self,
        topic: &str,
        partition: i32,
        key: Option<&str>,
        body: &str,
        headers: &[(&str, &str)],
    ) -> u64 {
        let mut record = FutureRecord::<str, str>::to(topic)
            .partition(partition)
            .payload(body);
        if let Some(key) = key {
            record = record.key(key);
        }
        let mut all = OwnedHeaders::new();
        for (name, value) in headers {
            all = all.insert(Header {
                key: name,
                value: Some(*value),
            });
        }
        let sent = self
            .producer
            .send(record.headers(all), PATIENCE)
            .await
            .unwrap();
        u64::try_from(sent.offset).unwrap()
    }

    /// What is in partition 0 of a topic, when so many are there.
    pub(crate) async fn read(&self, topic: &str, count: usize) -> Vec<Read> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.servers)
            .set("group.id", format!("{}.look", self.name))
            .set("enable.auto.commit", "false")
            .create()
            .unwrap();
        let mut from = rdkafka::TopicPartitionList::new();
        from.add_partition_offset(topic, 0, rdkafka::Offset::Beginning)
            .unwrap();
        consumer.assign(&from).unwrap();
        let reading = tokio::task::spawn_blocking(move || {
            let mut read = Vec::new();
            let ends = std::time::Instant::now() + PATIENCE;
            while read.len() < count && std::time::Instant::now() < ends {
                if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
                    read.push(Read::of(&message));
                }
            }
            read
        });
        let read = reading.await.unwrap();
        assert_eq!(read.len(), count, "{read:?}");
        read
    }

    /// What the topic's group has committed to Kafka of partition 0, if anything.
    pub(crate) async fn committed(&self, topic: &str) -> Option<i64> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.servers)
            .set("group.id", topic)
            .create()
            .unwrap();
        let mut asked = rdkafka::TopicPartitionList::new();
        asked.add_partition(topic, 0);
        let asking =
            tokio::task::spawn_blocking(move || consumer.committed_offsets(asked, PATIENCE));
        let committed = asking.await.unwrap().unwrap();
        committed.elements()[0]
            .offset()
            .to_raw()
            .filter(|offset| *offset >= 0)
    }

    /// Commits an offset of partition 0 to Kafka, as the topic's group, which has had no member.
    pub(crate) async fn commit(&self, topic: &str, offset: i64) {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.servers)
            .set("group.id", topic)
            .create()
            .unwrap();
        let mut committed = rdkafka::TopicPartitionList::new();
        committed
            .add_partition_offset(topic, 0, rdkafka::Offset::Offset(offset))
            .unwrap();
        let commits =
            tokio::task::spawn_blocking(move || consumer.commit(&committed, CommitMode::Sync));
        commits.await.unwrap().unwrap();
    }

    /// How many records partition 0 of a topic has had.
    pub(crate) fn count(&self, topic: &str) -> u64 {
        let ask = || self.producer.client().fetch_watermarks(topic, 0, PATIENCE);
        let (_, end) = tokio::task::block_in_place(ask).unwrap();
        u64::try_from(end).unwrap()
    }

    /// Removes what the first partition of a topic holds, but for some of the last records: by its retention.
    pub(crate) async fn truncate(&self, topic: &str) {
        // The mock keeps 5 MiB; on a real cluster the records are deleted.
        for _ in 0..8 {
            let random = u128::from_be_bytes(*Owner::new().as_bytes());
            let body = format!(r#"{{"id":"{random}","padding":"{}"}}"#, "x".repeat(900_000));
            self.send(topic, 0, None, &body).await;
        }
        if self.mock.is_none() {
            let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
                .set("bootstrap.servers", &self.servers)
                .create()
                .unwrap();
            let mut below = rdkafka::TopicPartitionList::new();
            let end = i64::try_from(self.count(topic)).unwrap();
            below
                .add_partition_offset(topic, 0, rdkafka::Offset::Offset(end - 4))
                .unwrap();
            admin
                .delete_records(&below, &AdminOptions::new())
                .await
                .unwrap();
        }
    }

    /// A topic that nobody has made.
    pub(crate) fn no_such_topic(&self) -> String {
        format!("{}.nowhere", self.name)
    }

    pub(crate) fn cluster(&self) -> Cluster {
        Cluster::new(self.servers.clone())
            // A member that has died is noticed soon. One that waits for others to join is not taken for dead: the mock
            // lets it wait for 3 s, and a busy machine may stall it.
            .set("session.timeout.ms", "12000")
            .set("heartbeat.interval.ms", "500")
            // The mock never answers a member that it took for dead; the member asks again after this.
            .set("max.poll.interval.ms", "12000")
    }

    /// Runs a worker with one handler until it is told to stop.
    pub(crate) fn worker<H, S>(&self, store: S, seen: &Seen, topic: Topic) -> Running
    where
        H: Handler<Seen>,
        H::Mode: RunsOn<S>,
        S: StreamStore + Purge + Clone,
    {
        let settled = seen.clone();
        let worker = KafkaWorker::builder(store)
            .state(seen.clone())
            .consume::<H>(topic)
            .on_settled(move |record| settled.settled(record))
            .build(self.cluster())
            .unwrap();
        Running::start(worker)
    }
}

/// A record as it stands in a topic.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) key: Option<String>,
    pub(crate) body: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Read {
    fn of(message: &rdkafka::message::BorrowedMessage<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = message
            .headers()
            .into_iter()
            .flat_map(|headers| headers.iter());
        Self {
            key: message.key().map(text),
            body: message.payload().map(text),
            headers: headers
                .map(|header| {
                    (
                        header.key.to_owned(),
                        text(header.value.unwrap_or_default()),
                    )
                })
                .collect(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// A worker that runs.
pub(crate) struct Running {
    stop: Option<oneshot::Sender<()>>,
    pub(crate) health: Health,
    task: JoinHandle<Result<WorkerStats, RunError>>,
}

impl Running {
    pub(crate) fn start(worker: KafkaWorker) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let health = worker.health();
        let task = tokio::spawn(worker.run_until(async {
            let _ = stopped.await;
        }));
        Self {
            stop: Some(stop),
            health,
            task,
        }
    }

    /// Stops it as a signal does.
    pub(crate) async fn stop(mut self) -> WorkerStats {
        drop(self.stop.take());
        timeout(PATIENCE, self.task)
            .await
            .expect("it stops")
            .unwrap()
            .unwrap()
    }

    /// Waits until it ends by itself.
    pub(crate) async fn ends(self) -> Result<WorkerStats, RunError> {
        timeout(PATIENCE, self.task)
            .await
            .expect("it ends")
            .unwrap()
    }

    /// Drops it, as if its process had died: it leaves no group, and gives nothing back.
    pub(crate) async fn die(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// What handlers have done, and what has become of records.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Inside>>);

#[derive(Debug, Default)]
struct Inside {
    /// The ids that handlers have begun with, in this order.
    begun: Vec<String>,
    /// Those that they have ended with.
    done: Vec<String>,
    /// Those that run.
    running: usize,
    most_running: usize,
    settled: Vec<(u64, ExecutionKind)>,
    /// How often an id is to fail still.
    failing: BTreeMap<String, u32>,
    /// How many calls have been let go on, if they wait for that.
    opened: Option<watch::Sender<usize>>,
    /// The id that waits until it is let go on, and whether it was.
    held: Option<(String, watch::Sender<bool>)>,
    /// How long a handler takes after that.
    takes: Duration,
}

impl Seen {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap()
    }

    pub(crate) fn taking(self, takes: Duration) -> Self {
        self.inside().takes = takes;
        self
    }

    /// Handlers wait until they are let go on.
    pub(crate) fn gated(self) -> Self {
        self.inside().opened = Some(watch::Sender::new(0));
        self
    }

    /// Lets so many calls go on, counted from the first that has begun.
    pub(crate) fn open(&self, calls: usize) {
        let inside = self.inside();
        inside
            .opened
            .as_ref()
            .expect("it is gated")
            .send_replace(calls);
    }

    /// The handler of this id waits until it is [let go on](Self::let_go).
    pub(crate) fn holding(self, id: &str) -> Self {
        self.inside().held = Some((id.into(), watch::Sender::new(false)));
        self
    }

    pub(crate) fn let_go(&self) {
        let inside = self.inside();
        let (_, let_go) = inside.held.as_ref().expect("it holds one");
        let_go.send_replace(true);
    }

    pub(crate) fn failing(self, id: &str, times: u32) -> Self {
        self.fail(id, times);
        self
    }

    /// From now on.
    pub(crate) fn fail(&self, id: &str, times: u32) {
        self.inside().failing.insert(id.into(), times);
    }

    pub(crate) fn begun(&self) -> Vec<String> {
        self.inside().begun.clone()
    }

    pub(crate) fn done(&self) -> Vec<String> {
        self.inside().done.clone()
    }

    pub(crate) fn most_running(&self) -> usize {
        self.inside().most_running
    }

    pub(crate) fn count(&self, kind: ExecutionKind) -> usize {
        let inside = self.inside();
        inside
            .settled
            .iter()
            .filter(|(_, settled)| *settled == kind)
            .count()
    }

    pub(crate) fn settled(&self, record: &idem_kafka::Settled<'_>) {
        let settled = (record.record.offset(), record.kind);
        self.inside().settled.push(settled);
    }

    pub(crate) fn all_settled(&self) -> usize {
        self.inside().settled.len()
    }

    /// Waits until so many records are done with.
    pub(crate) async fn until_settled(&self, count: usize) {
        until(&format!("{count} records are settled"), || {
            self.all_settled() >= count
        })
        .await;
    }

    pub(crate) async fn work(&self, id: &str) -> Result<(), Failed> {
        let (takes, fails, call, opened, held) = {
            let mut inside = self.inside();
            inside.begun.push(id.into());
            let opened = inside.opened.as_ref().map(watch::Sender::subscribe);
            let held = inside.held.as_ref().filter(|(held, _)| held == id);
            let held = held.map(|(_, let_go)| let_go.subscribe());
            inside.running += 1;
            inside.most_running = inside.most_running.max(inside.running);
            let left = inside.failing.get_mut(id);
            let fails = left.is_some_and(|left| {
                let fails = *left > 0;
                *left = left.saturating_sub(1);
                fails
            });
            (inside.takes, fails, inside.begun.len(), opened, held)
        };
        let _running = scopeguard(|| self.inside().running -= 1);
        if let Some(mut opened) = opened {
            opened.wait_for(|calls| *calls >= call).await?;
        }
        if let Some(mut let_go) = held {
            let_go.wait_for(|let_go| *let_go).await?;
        }
        sleep(takes).await;
        if fails {
            return Err(Failed::retry("not now"));
        }
        self.inside().done.push(id.into());
        Ok(())
    }
}

struct Guard<F: FnMut()>(F);

impl<F: FnMut()> Drop for Guard<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn scopeguard<F: FnMut()>(end: F) -> Guard<F> {
    Guard(end)
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(
        timeout(PATIENCE, waits).await.is_ok(),
        "not within {PATIENCE:?}: {what}"
    );
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: String,
}

#[allow(clippy::needless_pass_by_value, reason = "it is a number or a text")]
pub(crate) fn order(id: impl ToString) -> String {
    format!(r#"{{"id":"{}"}}"#, id.to_string())
}

#[idempotent(
    key = "id",
    scope = "kafka.note",
    lease = "2s",
    backoff = "10ms..20ms",
    max_attempts = 4
)]
pub(crate) async fn note(order: Order, State(seen): State<Seen>) -> Result<(), Failed> {
    match order.id.as_str() {
        "panics" => panic!("at the record {}", order.id),
        "rejected" => Err(Failed::rejected("not for us")),
        _ => seen.work(&order.id).await,
    }
}

/// Named by where the record stands.
#[idempotent(key = position(), scope = "kafka.place", backoff = "1s..1s")]
pub(crate) async fn note_by_place(order: Order, State(seen): State<Seen>) -> Result<(), Failed> {
    seen.work(&order.id).await
}
