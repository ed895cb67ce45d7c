//! A topic as a handler reads it.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use idem_core::{
    Policy,
    settlement::{Ladder, OnFailure},
};

/// Which topic, and which of its partitions.
pub(crate) type Place = (Arc<str>, i32);

/// A topic that a handler reads.
///
/// ```
/// use idem_kafka::{Order, StartAt, Topic};
///
/// let orders = Topic::new("orders")
///     .start_at(StartAt::End)
///     .order(Order::ByKey)
///     .concurrency(64)
///     .dead_letters("orders.charge.dead");
/// # drop(orders);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Topic {
    pub(crate) name: String,
    pub(crate) group: Option<String>,
    pub(crate) start_at: StartAt,
    pub(crate) order: Order,
    pub(crate) concurrency: u16,
    pub(crate) on_failure: OnFailure,
    pub(crate) dead_letters: Option<String>,
    pub(crate) retries: Option<(String, Ladder)>,
    pub(crate) takeover: Duration,
    pub(crate) policy: Option<Policy>,
}

/// Where a handler begins in a partition in which it has never been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StartAt {
    /// At the first record that is there.
    #[default]
    First,
    /// Behind the last record that is there. Also in partitions that the topic gets later: what is in them before the
    /// worker knows of them is not read.
    End,
    /// Where the consumer group is by what it has committed to Kafka; at the first record, if it has committed nothing.
    /// For a consumer that takes the place of another one. A partition that ends before that place is not read until it
    /// has grown to it, or somebody sets the mark.
    Committed,
    /// At the first record that is as young; at the end, if none is.
    Time(SystemTime),
}

/// Which records of a partition wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Order {
    /// Records of one key run one after the other, in the order of their offsets: of one record key, or of one
    /// `ordered_by` of the handler, if it has that. Those without a key wait for none.
    #[default]
    ByKey,
    /// All records of a partition run one after the other.
    ByPartition,
    /// None waits for another, unless the handler has `ordered_by`.
    Unordered,
}

impl Topic {
    /// How many handlers of the topic run at once in a worker, unless set.
    pub const DEFAULT_CONCURRENCY: u16 = 32;

    /// After how long another worker takes a partition over whose reader is silent, unless set.
    pub const DEFAULT_TAKEOVER: Duration = Duration::from_secs(15);

    /// A topic of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            group: None,
            start_at: StartAt::default(),
            order: Order::default(),
            concurrency: Self::DEFAULT_CONCURRENCY,
            on_failure: OnFailure::default(),
            dead_letters: None,
            retries: None,
            takeover: Self::DEFAULT_TAKEOVER,
            policy: None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The consumer group that shares the topic's partitions; the handler's scope, unless set.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Where a handler begins in a partition in which it has never been: at the [first](StartAt::First) record, unless
    /// set.
    pub fn start_at(mut self, place: StartAt) -> Self {
        self.start_at = place;
        self
    }

    /// Which records wait for each other: those [of one key](Order::ByKey), unless set.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// How many handlers run at once in this worker, over all partitions: 32, unless set. At least one.
    pub fn concurrency(mut self, handlers: u16) -> Self {
        self.concurrency = handlers.max(1);
        self
    }

    /// What becomes of a record that cannot be handled: it is [parked](OnFailure::Park), unless set.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// The topic for records that cannot be handled: `<topic>.<scope>.dead`, unless set. It must exist.
    pub fn dead_letters(mut self, topic: impl Into<String>) -> Self {
        self.dead_letters = Some(topic.into());
        self
    }

    /// A topic in which records wait for another attempt, with the delays of a [`Ladder`]. It must exist, and belong to
    /// this handler alone.
    ///
    /// It must not be compacted, and must keep records for longer than the longest rung.
    ///
    /// Without one, and for delays shorter than the first rung, a record waits in the worker: those of its key wait
    /// behind it, and it holds the mark of its partition up. In the retry topic it does neither, so it comes out of
    /// order.
    pub fn retries(mut self, topic: impl Into<String>, ladder: Ladder) -> Self {
        self.retries = Some((topic.into(), ladder));
        self
    }

    /// After how long another worker takes a partition over whose reader is silent: 15 s, unless set; 1 s to 1 hour.
    pub fn takeover_after(mut self, silence: Duration) -> Self {
        self.takeover = silence.clamp(Duration::from_secs(1), Duration::from_hours(1));
        self
    }

    /// The policy of the handler for this topic, instead of its own.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }
}

impl From<&str> for Topic {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}
