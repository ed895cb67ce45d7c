//! When the mark is written, and what is told of a partition meanwhile.

use std::{pin::pin, sync::Arc};

use idem_core::settlement::Ladder;
use rdkafka::{
    ClientConfig,
    mocking::MockCluster,
    producer::{DefaultProducerContext, FutureProducer, FutureRecord},
};

use super::*;
use crate::{
    Cluster, Topic,
    reading::{
        Reading,
        tests::{arrived, reading_under},
    },
    test_doubles::{NotingHandler, PATIENCE as LONG, WatchedMarks, partition},
};

const TAKEOVER: Duration = Topic::DEFAULT_TAKEOVER;

/// A partition of a worker that does not reach Kafka, and has claimed it.
struct Bed {
    marks: Arc<WatchedMarks>,
    stream: StreamMarks,
    partition: Partition,
}

impl Bed {
    fn new(topic: Topic, is_retries: bool) -> Self {
        let cluster = Cluster::new("127.0.0.1:1");
        let bed = Self::on(&cluster, topic, is_retries);
        // So that nobody is asked.
        let (health, topic) = (&bed.partition.health, &bed.partition.place.0);
        health.set_cut_off(topic, true, "nobody is there".into());
        bed
    }

    fn on(cluster: &Cluster, topic: Topic, is_retries: bool) -> Self {
        let marks = WatchedMarks::new();
        let handler = NotingHandler::new(&marks);
        let partition = partition(topic, is_retries, cluster, &handler);
        Self {
            stream: StreamMarks::new(Arc::clone(&marks) as _, TAKEOVER),
            marks,
            partition,
        }
    }

    async fn reading(&self) -> Reading {
        self.reading_from(0).await
    }

    async fn reading_from(&self, mark: u64) -> Reading {
        use idem_core::{
            executor::AnyStreamStore as _,
            store::{Owner, StreamClaim},
        };
        let claimed = self.marks.claim(Owner::new(), TAKEOVER).await.unwrap();
        let StreamClaim::Acquired { lease, .. } = claimed else {
            panic!("{claimed:?}")
        };
        let place = &self.partition.place;
        self.partition.health.set_mark(place, mark);
        self.partition
            .health
            .set_state(place, PartitionState::Reading);
        reading_under(lease, mark)
    }

    fn heartbeat<'a>(&'a self, reading: &'a Reading) -> Heartbeat<'a> {
        Heartbeat {
            marks: &self.stream,
            partition: &self.partition,
            reading,
            told: AtomicU64::new(u64::MAX),
        }
    }

    fn state(&self) -> PartitionState {
        self.partition.health.worker.partitions().remove(0).state
    }

    /// The marks that were written.
    fn saved(&self) -> Vec<u64> {
        self.marks.extended().into_iter().flatten().collect()
    }
}

/// A cluster with so many records in the topic.
async fn cluster_with(records: usize) -> (MockCluster<'static, DefaultProducerContext>, Cluster) {
    let mock = MockCluster::new(1).unwrap();
    mock.create_topic("postings", 1, 1).unwrap();
    let servers = mock.bootstrap_servers();
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", &servers)
        .create()
        .unwrap();
    for _ in 0..records {
        let record = FutureRecord::<str, str>::to("postings").payload("1");
        producer.send(record, LONG).await.unwrap();
    }
    (mock, Cluster::new(servers))
}

/// Lets it go on for so long.
async fn goes_on(kept: impl Future<Output = ()>, secs: u64) {
    let ended = timeout(Duration::from_secs(secs), kept).await;
    assert!(ended.is_err(), "it has the partition");
}

/// Looks until the reading fails.
async fn fails(heartbeat: &Heartbeat<'_>) -> String {
    let looks = async {
        let mut seen = Seen::default();
        loop {
            heartbeat.look(&mut seen).await;
            sleep(Duration::from_millis(10)).await;
        }
    };
    let fails = async {
        tokio::select! {
            () = looks => unreachable!(),
            reason = heartbeat.reading.until_failed() => reason,
        }
    };
    timeout(LONG, fails).await.expect("it fails")
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_has_not_moved_is_not_written() {
    let bed = Bed::new(Topic::new("postings"), false);
    let reading = bed.reading().await;
    let heartbeat = bed.heartbeat(&reading);
    let mut kept = pin!(heartbeat.run(Instant::now()));
    let record = arrived(&reading, 0);
    goes_on(&mut kept, 60).await;
    let extended = bed.marks.extended();
    assert!(extended.iter().all(Option::is_none), "{extended:?}");
    // Each third of `takeover_after`, though it is looked each second.
    assert!((6..=13).contains(&extended.len()), "{extended:?}");

    reading.note_done(&record);
    goes_on(&mut kept, 60).await;
    assert_eq!(bed.saved(), [1]);
    assert!(bed.marks.extended().len() <= 26);
    heartbeat.give_back().await;
    assert_eq!(bed.marks.released(), [None]);
}

#[tokio::test(start_paused = true)]
async fn what_is_done_since_the_last_save_is_saved_when_the_partition_is_given_back() {
    let bed = Bed::new(Topic::new("postings"), false);
    let reading = bed.reading().await;
    let heartbeat = bed.heartbeat(&reading);
    reading.note_done(&arrived(&reading, 0));
    heartbeat.give_back().await;
    assert_eq!((bed.saved(), bed.marks.released()), (vec![], vec![Some(1)]));
    assert_eq!((reading.saved_mark(), reading.unsaved()), (1, None));
}

/// A handler commits the mark meanwhile.
#[tokio::test(start_paused = true)]
async fn a_save_that_is_answered_late_takes_nothing_back() {
    let bed = Bed::new(Topic::new("postings"), false);
    let reading = bed.reading().await;
    let heartbeat = bed.heartbeat(&reading);
    let mut kept = pin!(heartbeat.run(Instant::now()));
    let records = [0, 1].map(|offset| arrived(&reading, offset));
    reading.note_done(&records[0]);
    bed.marks.hold_answers(true);
    goes_on(&mut kept, 2).await;
    assert_eq!((bed.saved(), reading.saved_mark()), (vec![1], 0));

    reading.note_done(&records[1]);
    reading.note_mark_in_store();
    let (health, place) = (&bed.partition.health, &bed.partition.place);
    health.set_mark(place, reading.saved_mark());
    bed.marks.hold_answers(false);
    goes_on(&mut kept, 30).await;
    assert_eq!((bed.saved(), reading.saved_mark()), (vec![1], 2));
    assert_eq!(health.worker.partitions()[0].mark, Some(2));
    assert_eq!(heartbeat.told.load(Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_stands_still_is_told_until_it_moves() {
    let bed = Bed::new(Topic::new("postings"), false);
    let reading = bed.reading().await;
    let heartbeat = bed.heartbeat(&reading);
    let mut kept = pin!(heartbeat.run(Instant::now()));
    // Nothing holds it up.
    goes_on(&mut kept, 600).await;
    assert_eq!(bed.state(), PartitionState::Reading);
    let [first, second] = [0, 1].map(|offset| arrived(&reading, offset));
    reading.note_done(&second);
    let patience = bed.stream.patience().as_secs();
    goes_on(&mut kept, patience - 5).await;
    assert_eq!(bed.state(), PartitionState::Reading);
    goes_on(&mut kept, 10).await;
    assert_eq!(bed.state(), PartitionState::Stalled);
    goes_on(&mut kept, 600).await;
    assert_eq!(bed.state(), PartitionState::Stalled);
    reading.note_done(&first);
    goes_on(&mut kept, 5).await;
    assert_eq!(bed.state(), PartitionState::Reading);
    // Each record has that long.
    for offset in 2..=4 {
        let next = arrived(&reading, offset);
        goes_on(&mut kept, patience - 5).await;
        reading.note_done(&next);
    }
    assert_eq!(bed.state(), PartitionState::Reading);
}

#[tokio::test(start_paused = true)]
async fn in_a_retry_topic_a_mark_stands_still_after_its_longest_rung() {
    let hour = Duration::from_hours(1);
    let ladder = Ladder::new([Duration::from_mins(1), hour]).unwrap();
    let topic = Topic::new("postings.retry").retries("postings.retry", ladder);
    let bed = Bed::new(topic, true);
    let reading = bed.reading().await;
    let heartbeat = bed.heartbeat(&reading);
    let mut kept = pin!(heartbeat.run(Instant::now()));
    arrived(&reading, 0);
    let patience = (bed.stream.patience() + hour).as_secs();
    goes_on(&mut kept, patience - 5).await;
    assert_eq!(bed.state(), PartitionState::Reading);
    goes_on(&mut kept, 10).await;
    assert_eq!(bed.state(), PartitionState::Stalled);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_stops_at_a_record_does_not_say_that_it_stands_still() {
    let bed = Bed::new(Topic::new("postings"), false);
    let reading = bed.reading().await;
    let heartbeat = bed.heartbeat(&reading);
    let mut kept = pin!(heartbeat.run(Instant::now()));
    reading.stops.stop_at(arrived(&reading, 0).tag);
    let stopped = PartitionState::Stopped { offset: 0 };
    let (health, place) = (&bed.partition.health, &bed.partition.place);
    health.set_state(place, stopped.clone());
    goes_on(&mut kept, 3600).await;
    assert_eq!(bed.state(), stopped);
}

/// What a compaction leaves out, or a transaction of Kafka writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_hole_above_the_first_record_that_is_there_is_no_removal() {
    let (_mock, cluster) = cluster_with(6).await;
    let bed = Bed::on(&cluster, Topic::new("postings"), false);
    let reading = bed.reading().await;
    let heartbeat = bed.heartbeat(&reading);
    arrived(&reading, 0);
    // What lies between did not come.
    arrived(&reading, 5);
    let look = async {
        let mut seen = Seen::default();
        while bed.partition.health.worker.partitions()[0].lag.is_none() {
            heartbeat.look(&mut seen).await;
        }
        seen.hole
    };
    let hole = timeout(LONG, look).await.expect("Kafka answers");
    let health = bed.partition.health.worker.partitions().remove(0);
    assert_eq!((hole, health.lag, health.removed), (None, Some(6), 0));
}

/// Its topic was made anew, and the client may ask for ever for what is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_ends_before_its_mark_is_not_read_on() {
    let (_mock, cluster) = cluster_with(2).await;
    let bed = Bed::on(&cluster, Topic::new("postings"), false);
    let reading = bed.reading_from(100).await;
    let heartbeat = bed.heartbeat(&reading);
    let reason = fails(&heartbeat).await;
    assert_eq!(
        reason,
        "it ends before its mark 100: this is looked at again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_from_which_nothing_comes_though_records_are_there_is_read_anew_once() {
    const SILENCE: Duration = Duration::from_millis(300);
    let (_mock, cluster) = cluster_with(6).await;
    let mut bed = Bed::on(&cluster, Topic::new("postings"), false);
    bed.partition.silence = SILENCE;
    // The last one may be the end of a transaction, which never comes.
    for (mark, in_hand, is_read_anew) in [
        (0, false, true),
        (0, false, false),
        (1, true, false),
        (1, false, true),
        (5, false, false),
    ] {
        let reading = bed.reading_from(mark).await;
        let heartbeat = bed.heartbeat(&reading);
        if in_hand {
            arrived(&reading, mark);
        }
        let patience = if is_read_anew { LONG } else { 4 * SILENCE };
        let begun = Instant::now();
        let failed = timeout(patience, fails(&heartbeat)).await;
        let what = format!("{mark}, {in_hand}: {failed:?}");
        assert_eq!(failed.is_ok(), is_read_anew, "{what}");
        assert!(begun.elapsed() >= SILENCE, "{what}");
        heartbeat.give_back().await;
    }
}
