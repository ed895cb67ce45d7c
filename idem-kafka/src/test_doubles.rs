//! For the tests of this crate: a handler that notes what it is called with, marks that are watched, and a topic of
//! theirs.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, pending, ready},
};
use idem_core::{
    __telemetry::LogLines,
    Executor, Key, MemoryStore, StoreError,
    executor::{AnyStreamStore, Decoded, ExecutionKind, Moved, StreamMarks},
    handler::BatchOptions,
    message::KeyError,
    settlement::Settlement,
    store::{Owner, StreamClaim, StreamLease, StreamState, Write},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Cluster, Record, Topic,
    consumed_topic::ConsumedTopic,
    group::Member,
    health::Health,
    partition::{self, Partition},
    publisher::Publisher,
    reading::{Arrived, Reading},
    runner::{Ended, RunHandler},
    tally::Tally,
    telemetry::RecordMeters,
    topic::Place,
};

/// The scope of the handler.
pub(crate) const HANDLER: &str = "ledger.book";

/// For whatever is to happen: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The marks of one partition in a store in memory.
pub(crate) struct WatchedMarks {
    store: Arc<dyn AnyStreamStore>,
    /// The leases that were given.
    leases: Mutex<Vec<StreamLease>>,
    extended: Mutex<Vec<Option<u64>>>,
    released: Mutex<Vec<Option<u64>>>,
    /// Who was asked for a claim, and who has waited for an answer when it was given back.
    pub(crate) calls: Mutex<Vec<Call>>,
    /// Whether extensions are carried out, and not answered yet.
    holds_answers: watch::Sender<bool>,
    /// Whether nothing is given back, and that is not answered.
    pub(crate) ignores_releases: AtomicBool,
}

/// A call of the marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// A claim begins.
    Claims,
    /// A release begins.
    GivesBack,
    /// Nobody waits for it any more.
    HasGivenBack,
}

impl WatchedMarks {
    pub(crate) fn new() -> Arc<Self> {
        let stream = Key::new("ledger.book", "kafka:postings:0").unwrap();
        Arc::new(Self {
            store: Executor::new(MemoryStore::new()).stream_store(stream),
            leases: Mutex::default(),
            extended: Mutex::default(),
            released: Mutex::default(),
            calls: Mutex::default(),
            holds_answers: watch::Sender::new(false),
            ignores_releases: AtomicBool::new(false),
        })
    }

    pub(crate) fn leases(&self) -> Vec<StreamLease> {
        self.leases.lock().unwrap().clone()
    }

    /// The marks with which the lease was extended; `None` without one.
    pub(crate) fn extended(&self) -> Vec<Option<u64>> {
        self.extended.lock().unwrap().clone()
    }

    pub(crate) fn released(&self) -> Vec<Option<u64>> {
        self.released.lock().unwrap().clone()
    }

    pub(crate) fn hold_answers(&self, holds: bool) {
        self.holds_answers.send_replace(holds);
    }

    fn note(&self, call: Call) {
        self.calls.lock().unwrap().push(call);
    }
}

/// Notes the end of a release, also if it is dropped.
struct GivingBack<'a>(&'a WatchedMarks);

impl Drop for GivingBack<'_> {
    fn drop(&mut self) {
        self.0.note(Call::HasGivenBack);
    }
}

impl AnyStreamStore for WatchedMarks {
    fn claim(
        &self,
        owner: Owner,
        lease: Duration,
    ) -> BoxFuture<'_, Result<StreamClaim, StoreError>> {
        async move {
            self.note(Call::Claims);
            let claimed = self.store.claim(owner, lease).await;
            if let Ok(StreamClaim::Acquired { lease, .. }) = &claimed {
                self.leases.lock().unwrap().push(lease.clone());
            }
            claimed
        }
        .boxed()
    }

    fn extend<'a>(
        &'a self,
        lease: &'a StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> BoxFuture<'a, Result<Write, StoreError>> {
        async move {
            self.extended.lock().unwrap().push(mark);
            let extended = self.store.extend(lease, mark, by).await;
            let mut holds = self.holds_answers.subscribe();
            holds.wait_for(|holds| !holds).await.unwrap();
            extended
        }
        .boxed()
    }

    fn release<'a>(
        &'a self,
        lease: &'a StreamLease,
        mark: Option<u64>,
    ) -> BoxFuture<'a, Result<Write, StoreError>> {
        async move {
            self.note(Call::GivesBack);
            let _giving_back = GivingBack(self);
            self.released.lock().unwrap().push(mark);
            if self.ignores_releases.load(SeqCst) {
                return pending().await;
            }
            self.store.release(lease, mark).await
        }
        .boxed()
    }

    fn look(&self) -> BoxFuture<'_, Result<Option<StreamState>, StoreError>> {
        self.store.look()
    }
}

/// A handler that notes what it is called with.
pub(crate) struct NotingHandler {
    marks: Arc<WatchedMarks>,
    ran: Mutex<Vec<u64>>,
    /// At the next record the reading fails.
    pub(crate) fails_reading: AtomicBool,
}

impl NotingHandler {
    pub(crate) fn new(marks: &Arc<WatchedMarks>) -> Arc<Self> {
        Arc::new(Self {
            marks: Arc::clone(marks),
            ran: Mutex::default(),
            fails_reading: AtomicBool::new(false),
        })
    }

    /// The offsets of the records that it was called with.
    pub(crate) fn ran(&self) -> Vec<u64> {
        self.ran.lock().unwrap().clone()
    }
}

/// A record that ended so.
pub(crate) fn ended(kind: ExecutionKind, settlement: Settlement) -> Ended {
    Ended {
        kind,
        key: None,
        attempt: None,
        error: None,
        settlement,
    }
}

impl RunHandler for NotingHandler {
    fn run<'a>(&'a self, arrived: &'a Arrived, reading: &'a Reading) -> BoxFuture<'a, Ended> {
        async move {
            self.ran.lock().unwrap().push(arrived.record.offset());
            if self.fails_reading.swap(false, SeqCst) {
                reading.fail("it is to");
                reading.ended.cancelled().await;
                return ended(ExecutionKind::Abandoned, Settlement::Leave);
            }
            ended(ExecutionKind::Executed, Settlement::Ack)
        }
        .boxed()
    }

    fn records_by_mark(&self) -> Option<BatchOptions> {
        None
    }

    fn decode(&self, _: &Record) -> Decoded {
        unreachable!("each of its records leaves a record")
    }

    fn move_mark<'a>(&'a self, _: &'a mut [Arrived], _: &'a Reading) -> BoxFuture<'a, Moved> {
        ready(Moved::Closed).boxed()
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn ordered_by(&self, _: &Record) -> Option<Key> {
        None
    }

    fn marks(&self, _: &Place, takeover: Duration) -> Result<StreamMarks, KeyError> {
        Ok(StreamMarks::new(Arc::clone(&self.marks) as _, takeover))
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        ready(Ok(())).boxed()
    }
}

/// The partition 0 of this topic, which nobody has assigned to anybody.
pub(crate) fn partition(
    topic: Topic,
    is_retries: bool,
    cluster: &Cluster,
    handler: &Arc<NotingHandler>,
) -> Partition {
    let (member, _) = Member::new(cluster, HANDLER, &topic.name).unwrap();
    let place: Place = (topic.name.as_str().into(), 0);
    let partition = Partition {
        consumed: consumed(topic, is_retries, cluster, handler),
        member,
        place,
        revoked: CancellationToken::new(),
        stopping: CancellationToken::new(),
        cut_off: CancellationToken::new(),
        health: Health::default().of(HANDLER),
        tally: Arc::new(Tally::new(None)),
        tasks: TaskTracker::new(),
        claimed: Mutex::default(),
        short: Mutex::default(),
        silence: partition::SILENCE,
        renewed: AtomicU64::new(u64::MAX),
    };
    partition.health.add_partition(&partition.place);
    partition
}

pub(crate) fn consumed(
    topic: Topic,
    is_retries: bool,
    cluster: &Cluster,
    handler: &Arc<NotingHandler>,
) -> Arc<ConsumedTopic> {
    Arc::new(ConsumedTopic {
        dead_letters: format!("{}.dead", topic.name),
        retries: topic.retries.as_ref().map(|(name, _)| name.clone()),
        meters: RecordMeters::of(HANDLER, &topic.name),
        topic,
        handler: HANDLER,
        is_retries,
        runner: Arc::clone(handler) as _,
        publisher: Publisher::new(cluster).unwrap(),
        failure_lines: LogLines::default(),
    })
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = timeout(PATIENCE, waits).await;
    assert!(waited.is_ok(), "not within {PATIENCE:?}: {what}");
}
