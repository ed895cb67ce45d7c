//! A stream as the source of a handler's messages.

use std::{sync::Arc, time::Duration};

use idem_core::settlement::{Ladder, OnFailure};
use lapin::types::{AMQPValue, FieldTable, LongString};

use super::{
    DeadLetterTarget, Queue,
    partitions::{Partition, Partitions},
};
use crate::wire::{QueueType, StreamOffset, retries::Retries};

/// What a stream has beside what a queue has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stream {
    /// Whether the worker declares it.
    pub(crate) is_ours: bool,
    pub(crate) from: StreamOffset,
    /// How long a standby waits for a reader that is silent.
    pub(crate) takeover: Duration,
    on_failure: OnFailure,
    max_age: Option<Duration>,
    max_bytes: Option<u64>,
    segment_bytes: Option<u64>,
    pub(super) shape: Shape,
    /// Whether it was said where dead letters go.
    pub(super) has_own_dead_letters: bool,
    /// The queue of what fails, once the handler is known.
    failures: Option<Arc<str>>,
}

/// Whether it is one stream, or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    Alone,
    /// A super stream, as it is named: what is read are its partitions.
    Super(Partitions),
    Partition(Partition),
}

impl Queue {
    /// How long a standby waits for a worker that is silent, unless said otherwise.
    pub const DEFAULT_TAKEOVER: Duration = Duration::from_secs(15);

    /// A stream, declared by the worker, for [`consume_stream`](crate::WorkerBuilder::consume_stream): it keeps what is
    /// handled, and each handler reads all of it. Set how much it keeps, by [`max_age`](Self::max_age) or
    /// [`max_bytes`](Self::max_bytes), or it keeps all for ever.
    ///
    /// What fails cannot go back into it. It goes to a quorum queue of the handler's own, `<stream>~<scope>`, by the
    /// [ladder](Self::ladder); and for good to the dead-letter queue of that, `<stream>~<scope>.dead`. The worker
    /// declares and consumes both.
    ///
    /// ```
    /// use std::time::Duration;
    /// use idem_amqp::{Queue, StreamOffset};
    ///
    /// let ledger = Queue::stream("ledger").max_age(Duration::from_hours(24 * 30)).offset(StreamOffset::Next);
    /// # drop(ledger);
    /// ```
    pub fn stream(name: impl Into<String>) -> Self {
        Self::of_stream(&name.into(), true)
    }

    /// A stream that somebody else declares. Of its own, the worker declares the queues of what fails.
    pub fn existing_stream(name: impl Into<String>) -> Self {
        Self::of_stream(&name.into(), false)
    }

    fn of_stream(name: &str, is_ours: bool) -> Self {
        let mut queue = Self::new(name, None, Retries::Ladder(Ladder::default()));
        queue.stream = Some(Box::new(Stream {
            is_ours,
            from: StreamOffset::default(),
            takeover: Self::DEFAULT_TAKEOVER,
            on_failure: OnFailure::default(),
            max_age: None,
            max_bytes: None,
            segment_bytes: None,
            shape: Shape::Alone,
            has_own_dead_letters: false,
            failures: None,
        }));
        queue
    }

    pub(super) fn with_stream(mut self, set: impl FnOnce(&mut Stream)) -> Self {
        if let Some(stream) = &mut self.stream {
            set(stream);
        }
        self
    }

    /// Where in the stream the handler begins if the store has no mark of it; with the first message unless set. From
    /// then on it goes on from its mark. Does nothing to a queue.
    pub fn offset(self, offset: StreamOffset) -> Self {
        self.with_stream(|stream| stream.from = offset)
    }

    /// How old the messages of a declared stream may be, to the second (`x-max-age`). Does nothing to a queue.
    pub fn max_age(self, age: Duration) -> Self {
        self.with_stream(|stream| stream.max_age = Some(age))
    }

    /// How many bytes a declared stream may have (`x-max-length-bytes`). Does nothing to a queue.
    pub fn max_bytes(self, bytes: u64) -> Self {
        self.with_stream(|stream| stream.max_bytes = Some(bytes))
    }

    /// How many bytes a segment of a declared stream has (`x-stream-max-segment-size-bytes`): the broker removes whole
    /// segments, and keeps the last one whatever its age. Does nothing to a queue.
    pub fn segment_bytes(self, bytes: u64) -> Self {
        self.with_stream(|stream| stream.segment_bytes = Some(bytes))
    }

    /// How long the workers that stand by wait for the one that reads the stream, if it is silent: 15 s unless set, at
    /// least a second. Does nothing to a queue.
    pub fn takeover_after(self, silence: Duration) -> Self {
        self.with_stream(|stream| stream.takeover = silence.max(Duration::from_secs(1)))
    }

    /// What becomes of a message of the stream that cannot be handled: it is [parked](OnFailure::Park), unless set.
    ///
    /// With [`Stop`](OnFailure::Stop) nothing of the stream goes to the [ladder](Self::ladder), and nothing is
    /// dead-lettered but a request whose answer does not reach its requester: what fails keeps its place, and holds the
    /// mark up, until it is handled. So it is in each partition of a super stream. Does nothing to a queue.
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        self.with_stream(|stream| stream.on_failure = on_failure)
    }

    pub(crate) fn as_stream(&self) -> Option<&Stream> {
        self.stream.as_deref()
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// How long those who stand by wait for the reader of this stream.
    pub(crate) fn takeover(&self) -> Duration {
        let takeover = self.as_stream().map(|stream| stream.takeover);
        takeover.unwrap_or(Self::DEFAULT_TAKEOVER)
    }

    /// What becomes of what cannot be handled.
    pub(crate) fn failure_policy(&self) -> OnFailure {
        let on_failure = self.as_stream().map(|stream| stream.on_failure);
        on_failure.unwrap_or_default()
    }

    /// Whether it stops at what cannot be handled.
    pub(crate) fn stops(&self) -> bool {
        self.failure_policy() == OnFailure::Stop
    }

    /// Whether the worker declares it.
    pub(crate) fn is_ours(&self) -> bool {
        self.kind.is_some() || self.as_stream().is_some_and(|stream| stream.is_ours)
    }

    /// The stream as a handler of this scope reads it.
    pub(crate) fn read_by(mut self, scope: &str) -> Self {
        let Some(stream) = &mut self.stream else {
            return self;
        };
        let failures = format!("{}~{scope}", self.name);
        let is_default = matches!(self.dead_letters, DeadLetterTarget::Queue(_));
        if is_default && !stream.has_own_dead_letters {
            self.dead_letters = DeadLetterTarget::Queue(format!("{failures}.dead"));
        }
        stream.failures = Some(failures.into());
        self
    }

    /// The queue of what failed in the stream, or was sent again.
    pub(crate) fn failures(&self) -> Option<Self> {
        let name = self.as_stream()?.failures.as_deref()?;
        Some(Self {
            name: name.into(),
            kind: Some(QueueType::Quorum),
            stream: None,
            bindings: Vec::new(),
            ..self.clone()
        })
    }

    /// Where its messages come back to; the queue itself if nothing is said.
    pub(crate) fn comes_back_to(&self) -> Option<Arc<str>> {
        self.as_stream()?.failures.clone()
    }
}

impl Stream {
    /// Frozen, as those of queues are.
    pub(crate) fn arguments(&self) -> FieldTable {
        let mut table = FieldTable::default();
        let mut set = |name: &str, value| {
            table.insert(name.into(), value);
        };
        set("x-queue-type", AMQPValue::LongString("stream".into()));
        if let Some(age) = self.max_age {
            let age = LongString::from(format!("{}s", age.as_secs()));
            set("x-max-age", AMQPValue::LongString(age));
        }
        let bytes = |bytes: u64| AMQPValue::LongLongInt(i64::try_from(bytes).unwrap_or(i64::MAX));
        if let Some(most) = self.max_bytes {
            set("x-max-length-bytes", bytes(most));
        }
        if let Some(most) = self.segment_bytes {
            set("x-stream-max-segment-size-bytes", bytes(most));
        }
        if let Shape::Partition(_) = self.shape {
            // As RabbitMQ's own tool does: the leaders of the partitions are spread over the nodes.
            let balanced = AMQPValue::LongString("balanced".into());
            set("x-queue-leader-locator", balanced);
        }
        table
    }
}
