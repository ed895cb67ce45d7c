//! How a worker is: what it reads, and what stands still.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{telemetry::PartitionMeters, topic::Place};

/// What a partition does in this worker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartitionState {
    /// It was assigned to this worker, and is not read yet.
    Starting,
    /// Another worker has it still; this one waits until that gives it back, or is silent for too long.
    StandingBy,
    /// It is read.
    Reading,
    /// The record at the mark is not done for long.
    Stalled,
    /// A record could not be handled, and the topic is to [stop](crate::OnFailure::Stop) there.
    Stopped {
        /// Its offset.
        offset: u64,
    },
    /// The mark is beyond the end of the partition: it was made anew, or set back. It is not read before somebody sets
    /// the mark.
    MarkBeyondEnd {
        /// The mark.
        mark: u64,
    },
    /// It cannot be read: what the store, or Kafka, says.
    Failing {
        /// Why.
        error: String,
    },
}

/// A partition that a worker has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionHealth {
    /// The scope of the handler that reads it.
    pub handler: String,
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// What it does.
    pub state: PartitionState,
    /// The lowest offset that is not done, as far as this worker knows.
    pub mark: Option<u64>,
    /// How many offsets lie between the mark and the end of the partition, by what Kafka said last: it is asked each
    /// ten seconds.
    pub lag: Option<u64>,
    /// Approximate number of offsets that Kafka removed before they were handled, since the partition was assigned to
    /// this worker.
    pub removed: u64,
}

/// How a worker is. Clones look at the same worker.
///
/// ```
/// # use idem_core::{Failed, MemoryStore, idempotent};
/// use idem_kafka::{KafkaWorker, PartitionState};
/// # #[idempotent(key = message_id(), scope = "mails.send")]
/// # async fn send(_: String) -> Result<(), Failed> { Ok(()) }
///
/// let worker = KafkaWorker::builder(MemoryStore::new()).consume::<send>("mails").build("localhost:9092")?;
/// let health = worker.health();
/// // … in a probe:
/// let is_ready = health.is_ready();
/// # assert!(!is_ready);
/// # Ok::<_, idem_kafka::BuildError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    partitions: BTreeMap<(Place, &'static str), Partition>,
    /// Topics and handlers whose client has lost Kafka, or its group, and what it said.
    cut_off: BTreeMap<(String, &'static str), Lost>,
    is_running: bool,
}

#[derive(Debug)]
struct Partition {
    health: PartitionHealth,
    meters: PartitionMeters,
}

/// What a client has lost.
#[derive(Debug)]
struct Lost {
    /// The way to Kafka, and not its place in the group.
    is_away: bool,
    error: String,
}

/// A worker that runs, until this is dropped.
#[derive(Debug)]
pub(crate) struct RunningWorker(Health);

impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.0.state().is_running = false;
    }
}

impl Health {
    /// Whether the worker runs and reaches Kafka, and nothing that it has waits for a person.
    ///
    /// A worker that has no partition is ready: others have them.
    pub fn is_ready(&self) -> bool {
        use PartitionState::{Failing, MarkBeyondEnd, Stopped};
        let state = self.state();
        let waits = |partition: &Partition| {
            matches!(
                partition.health.state,
                Stopped { .. } | MarkBeyondEnd { .. } | Failing { .. }
            )
        };
        state.is_running && state.cut_off.is_empty() && !state.partitions.values().any(waits)
    }

    /// The partitions that this worker has, by topic, number and handler.
    pub fn partitions(&self) -> Vec<PartitionHealth> {
        let state = self.state();
        let partitions = state.partitions.values();
        partitions.map(|one| one.health.clone()).collect()
    }

    /// The topics whose client has lost Kafka, or is not let into its group, and what it said last.
    pub fn cut_off(&self) -> BTreeMap<String, String> {
        let state = self.state();
        let lost = state.cut_off.iter();
        lost.map(|((topic, _), lost)| (topic.clone(), lost.error.clone()))
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_running(&self) -> RunningWorker {
        self.state().is_running = true;
        RunningWorker(self.clone())
    }

    /// What this handler reads.
    pub(crate) fn of(&self, handler: &'static str) -> HandlerHealth {
        HandlerHealth {
            worker: self.clone(),
            handler,
        }
    }
}

/// How a worker is, as far as one of its handlers goes: two of them may read one topic.
#[derive(Debug, Clone)]
pub(crate) struct HandlerHealth {
    pub(crate) worker: Health,
    handler: &'static str,
}

impl HandlerHealth {
    fn state(&self) -> MutexGuard<'_, State> {
        self.worker.state()
    }

    /// The client has lost Kafka, or only its place in the group.
    pub(crate) fn set_cut_off(&self, topic: &str, is_away: bool, error: String) {
        let lost = Lost { is_away, error };
        let place = (topic.to_owned(), self.handler);
        self.state().cut_off.insert(place, lost);
    }

    /// Whether the client has lost Kafka, or only its place in the group; `None` if it has neither.
    pub(crate) fn is_cut_off(&self, topic: &str) -> Option<bool> {
        let place = (topic.to_owned(), self.handler);
        self.state().cut_off.get(&place).map(|lost| lost.is_away)
    }

    /// The client has again what it had lost.
    pub(crate) fn set_reached(&self, topic: &str) {
        let place = (topic.to_owned(), self.handler);
        self.state().cut_off.remove(&place);
    }

    /// The partition is this worker's from now on.
    pub(crate) fn add_partition(&self, place: &Place) {
        let (topic, partition) = place;
        let health = PartitionHealth {
            handler: self.handler.to_owned(),
            topic: topic.to_string(),
            partition: *partition,
            state: PartitionState::Starting,
            mark: None,
            lag: None,
            removed: 0,
        };
        let meters = PartitionMeters::of(self.handler, place);
        let partition = Partition { health, meters };
        let place = (place.clone(), self.handler);
        self.state().partitions.insert(place, partition);
    }

    /// Does nothing if the worker no longer has the partition.
    fn change(&self, place: &Place, change: impl FnOnce(&mut Partition)) {
        let place = (place.clone(), self.handler);
        if let Some(partition) = self.state().partitions.get_mut(&place) {
            change(partition);
        }
    }

    /// Says whether the state is a new one.
    pub(crate) fn set_state(&self, place: &Place, state: PartitionState) -> bool {
        let mut is_new = false;
        self.change(place, |Partition { health, meters }| {
            is_new = health.state != state;
            meters.set_stopped(matches!(state, PartitionState::Stopped { .. }));
            health.state = state;
        });
        is_new
    }

    pub(crate) fn set_mark(&self, place: &Place, mark: u64) {
        self.change(place, |Partition { health, meters }| {
            health.mark = Some(mark);
            meters.set_mark(mark);
        });
    }

    pub(crate) fn add_removed(&self, place: &Place, records: u64) {
        self.change(place, |partition| partition.health.removed += records);
    }

    /// Where the partition ended just now.
    pub(crate) fn set_end(&self, place: &Place, end: u64) {
        self.change(place, |Partition { health, meters }| {
            let lag = health.mark.map(|mark| end.saturating_sub(mark));
            health.lag = lag;
            meters.set_lag(lag.unwrap_or(0));
        });
    }

    /// The worker no longer has the partition.
    pub(crate) fn remove_partition(&self, place: &Place) {
        let place = (place.clone(), self.handler);
        self.state().partitions.remove(&place);
    }
}
