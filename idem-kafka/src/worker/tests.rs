//! Partitions that are assigned again, and claimed again.

use std::sync::atomic::Ordering::SeqCst;

use rdkafka::{
    ClientConfig,
    mocking::MockCluster,
    producer::{DefaultProducerContext, FutureProducer, FutureRecord},
};
use tokio::{task::JoinHandle, time::timeout};

use super::*;
use crate::{
    KafkaError, Topic,
    test_doubles::{
        Call::{Claims, GivesBack, HasGivenBack},
        HANDLER, NotingHandler, PATIENCE, WatchedMarks, consumed, until,
    },
};

/// A topic of one partition, which its only reader has.
struct Bed {
    mock: MockCluster<'static, DefaultProducerContext>,
    producer: FutureProducer,
    marks: Arc<WatchedMarks>,
    handler: Arc<NotingHandler>,
    stopping: CancellationToken,
    health: Health,
    /// Assigns the partition.
    assigned: mpsc::UnboundedSender<Assigned>,
    place: Place,
    polling: JoinSet<KafkaError>,
    reading: JoinHandle<()>,
}

impl Bed {
    async fn new() -> Self {
        // What is not given back is free after this: longer than a busy machine may stall a worker that lives.
        let topic = Topic::new("postings").takeover_after(Duration::from_secs(9));
        let mock = MockCluster::new(1).unwrap();
        mock.create_topic(&topic.name, 1, 1).unwrap();
        let servers = mock.bootstrap_servers();
        let producer = ClientConfig::new()
            .set("bootstrap.servers", &servers)
            .create()
            .unwrap();
        let cluster = Cluster::new(servers);
        let marks = WatchedMarks::new();
        let handler = NotingHandler::new(&marks);
        let (member, mut by_group) = Member::new(&cluster, HANDLER, &topic.name).unwrap();
        member.join(&topic.name).unwrap();
        let health = Health::default();
        let mut polling = JoinSet::new();
        let told = health.of(HANDLER);
        let (polled, name) = (member.clone(), topic.name.clone());
        polling.spawn(async move { polled.poll(&name, &told).await });
        let by_group = timeout(PATIENCE, by_group.recv()).await;
        let place = by_group.expect("the group assigns it").unwrap().place;
        let (assigned, assignments) = mpsc::unbounded_channel();
        let stopping = CancellationToken::new();
        let reader = Reader {
            consumed: consumed(topic, false, &cluster, &handler),
            member,
            stopping: stopping.clone(),
            cut_off: CancellationToken::new(),
            health: health.of(HANDLER),
            tally: Arc::new(Tally::new(None)),
            tasks: TaskTracker::new(),
        };
        Self {
            mock,
            producer,
            marks,
            handler,
            stopping,
            health,
            assigned,
            place,
            polling,
            reading: tokio::spawn(read(assignments, reader)),
        }
    }

    async fn send(&self) {
        let record = FutureRecord::<str, str>::to(&self.place.0).payload("1");
        self.producer.send(record, PATIENCE).await.unwrap();
    }

    /// Until the token is cancelled.
    fn assign(&self) -> CancellationToken {
        let revoked = CancellationToken::new();
        let assigned = Assigned {
            place: self.place.clone(),
            revoked: revoked.clone(),
        };
        self.assigned.send(assigned).unwrap();
        revoked
    }

    /// Waits until the record at this offset has run so often, in whatever order with others.
    async fn until_ran(&self, offset: u64, times: usize) {
        let count = || {
            self.handler
                .ran()
                .iter()
                .filter(|ran| **ran == offset)
                .count()
        };
        until(&format!("{offset} ran"), || count() >= times).await;
    }

    async fn stop(mut self) {
        self.stopping.cancel();
        let stopped = timeout(PATIENCE, self.reading).await;
        stopped.expect("it stops").unwrap();
        self.polling.shutdown().await;
        drop(self.mock);
    }
}

/// The group takes it away, and gives it back at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_is_assigned_again_is_claimed_when_its_last_reading_has_ended() {
    let bed = Bed::new().await;
    let first = bed.assign();
    bed.send().await;
    bed.until_ran(0, 1).await;
    // It waits for an answer when it gives the partition back.
    bed.marks.ignores_releases.store(true, SeqCst);
    first.cancel();
    let second = bed.assign();
    bed.send().await;
    bed.until_ran(1, 1).await;
    let calls = bed.marks.calls.lock().unwrap().clone();
    assert_eq!(
        calls[..4],
        [Claims, GivesBack, HasGivenBack, Claims],
        "{calls:?}"
    );
    assert_eq!(bed.health.partitions().len(), 1);
    second.cancel();
    until("nobody reads it", || bed.health.partitions().is_empty()).await;
    bed.stop().await;
}

/// What the last one may still commit is refused then.
#[tokio::test(flavor = "multi_thread")]
async fn each_reading_of_a_partition_has_a_claim_of_its_own() {
    let bed = Bed::new().await;
    bed.handler.fails_reading.store(true, SeqCst);
    bed.marks.ignores_releases.store(true, SeqCst);
    bed.assign();
    bed.send().await;
    bed.until_ran(0, 2).await;
    let leases = bed.marks.leases();
    let grow = leases.windows(2).all(|two| two[0].token < two[1].token);
    assert!(leases.len() > 1 && grow, "{leases:?}");
    bed.stop().await;
}
