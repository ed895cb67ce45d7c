//! A Kafka record as handlers, keys and decoders see it, and as it is published again.
//!
//! What must stay true: a record that comes back from its retry topic has the position of the record that was read
//! first, so that a key of the position names the same work; only what stands in the retry topic is believed about
//! that.

use std::{
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use idem_core::{
    Envelope, FromContext, Key,
    handler::{Context, Rejection},
    message::HeaderSource,
    settlement::{Ladder, Reason},
};
use rdkafka::message::{BorrowedMessage, Header, Headers as _, Message as _, OwnedHeaders};

/// The id that the publisher gave the record: the key `message_id()`. The second is that of `CloudEvents`.
const IDS: [&str; 2] = ["message-id", "ce_id"];

/// The record's key, as a header.
const KEY_HEADER: &str = "kafka-key";

/// The headers that idem writes begin so.
const OWN: &str = "idem-";
/// Why it was dead-lettered. On a record of a retry topic: a person has sent it again.
const REASON: &str = "idem-reason";
/// The last error, cut at 1 KiB.
const ERROR: &str = "idem-error";
/// How many attempts there were.
const ATTEMPT: &str = "idem-attempt";
/// The key of the work, where it has one.
const KEY: &str = "idem-key";
/// Where it was read first.
const TOPIC: &str = "idem-topic";
const PARTITION: &str = "idem-partition";
const OFFSET: &str = "idem-offset";
/// The timestamp that it had there. Its own is a new one: Kafka would remove an old one at once.
const TIMESTAMP: &str = "idem-timestamp";
/// When it failed first, and last: milliseconds since 1970.
const FIRST_FAILURE: &str = "idem-first-failure";
const LAST_FAILURE: &str = "idem-last-failure";
/// When it is due: milliseconds since 1970.
const DUE: &str = "idem-due";

const LONGEST_ERROR: usize = 1024;

/// Where a record came from: a parameter for handlers that want to know.
///
/// ```
/// use idem_core::{Failed, idempotent};
/// use idem_kafka::Record;
/// # #[derive(serde::Deserialize)] struct Order { id: String }
///
/// #[idempotent(key = "id", scope = "orders.ship")]
/// async fn ship(order: Order, from: Record) -> Result<(), Failed> {
///     println!("{} from {} [{}] at {}", order.id, from.topic(), from.partition(), from.offset());
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Record(Arc<Content>);

type Headers = Vec<(String, Option<Bytes>)>;

#[derive(Debug)]
struct Content {
    /// Where it was read first.
    topic: Arc<str>,
    partition: i32,
    offset: u64,
    key: Option<Bytes>,
    /// `None` is a tombstone.
    payload: Option<Bytes>,
    headers: Headers,
    /// Whether it has headers that cannot be read: they are left out.
    is_unreadable: bool,
    /// Milliseconds since 1970.
    timestamp: Option<i64>,
    again: Option<Again>,
}

/// What a record of a retry topic says of itself.
#[derive(Debug, Default)]
struct Again {
    attempts: u32,
    /// Milliseconds since 1970.
    due: u64,
    /// Milliseconds since 1970.
    first_failure: Option<u64>,
    is_replay: bool,
}

impl Record {
    /// The topic it was published to; of one that comes from a retry topic, the topic before that.
    pub fn topic(&self) -> &str {
        &self.0.topic
    }

    /// Its partition there.
    pub fn partition(&self) -> i32 {
        self.0.partition
    }

    /// Its offset there.
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// The record's key.
    pub fn key(&self) -> Option<&[u8]> {
        self.0.key.as_deref()
    }

    /// Its payload; empty for a [tombstone](Self::is_tombstone).
    pub fn payload(&self) -> &[u8] {
        self.0.payload.as_deref().unwrap_or_default()
    }

    /// The last of its headers of this name. As text, and with other extractors, headers are `idem_core::Headers`.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.0.header(name).map(|value| &**value)
    }

    /// Whether it has no payload, which deletes what a compacted topic has under its key. Its handler sees an empty
    /// body.
    pub fn is_tombstone(&self) -> bool {
        self.0.payload.is_none()
    }

    /// When it was made, or appended to the log if the topic is set so.
    pub fn timestamp(&self) -> Option<SystemTime> {
        let millis = u64::try_from(self.0.timestamp?).ok()?;
        Some(SystemTime::UNIX_EPOCH + Duration::from_millis(millis))
    }

    /// Whether a person has sent a dead letter again, to the retry topic.
    pub fn is_replay(&self) -> bool {
        self.0.again.as_ref().is_some_and(|again| again.is_replay)
    }
}

/// A record that no broker delivers, as `idem-testing` writes it.
#[cfg(feature = "testing")]
#[derive(Debug, Clone, Default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "its only user is in this repository"
)]
pub struct Undelivered {
    /// Its topic.
    pub topic: String,
    /// Its partition there.
    pub partition: i32,
    /// Its offset there.
    pub offset: u64,
    /// Its key.
    pub key: Option<Bytes>,
    /// `None` is a tombstone.
    pub payload: Option<Bytes>,
    /// Its headers in their order.
    pub headers: Vec<(String, Option<Bytes>)>,
    /// Milliseconds since 1970.
    pub timestamp: Option<i64>,
}

#[cfg(feature = "testing")]
impl Undelivered {
    /// The message that a worker makes of it.
    pub fn into_envelope(self) -> Envelope {
        let content = Content {
            topic: self.topic.into(),
            partition: self.partition,
            offset: self.offset,
            key: self.key,
            payload: self.payload,
            headers: self.headers,
            is_unreadable: false,
            timestamp: self.timestamp,
            again: None,
        };
        Record(Arc::new(content)).envelope()
    }
}

#[cfg(test)]
impl Record {
    /// One of a test, without a content.
    pub(crate) fn at_offset(offset: u64) -> Self {
        Self(Arc::new(Content {
            topic: "postings".into(),
            partition: 0,
            offset,
            key: None,
            payload: Some(Bytes::new()),
            headers: Vec::new(),
            is_unreadable: false,
            timestamp: None,
            again: None,
        }))
    }
}

impl<S> FromContext<S> for Record {
    fn from_context(context: &Context<'_, S>) -> Result<Self, Rejection> {
        let record = context.envelope.extension::<Self>().cloned();
        record.ok_or_else(|| Rejection::new("the message did not come from Kafka"))
    }
}

impl HeaderSource for Record {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        match name {
            KEY_HEADER => text(self.0.key.as_ref()),
            _ => text(self.0.header(name)),
        }
    }

    fn names(&self) -> Vec<&str> {
        let published = self.0.headers.iter().map(|(name, _)| name.as_str());
        let key = self.0.key.as_ref().map(|_| KEY_HEADER);
        published.chain(key).collect()
    }
}

fn headers(message: &BorrowedMessage<'_>) -> Headers {
    let headers = message.headers().into_iter();
    let headers = headers.flat_map(|headers| headers.iter());
    let copied = headers.map(|header| {
        let value = header.value.map(Bytes::copy_from_slice);
        (header.key.to_owned(), value)
    });
    copied.collect()
}

fn text(bytes: Option<&Bytes>) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(std::str::from_utf8(bytes?).ok()?))
}

impl Record {
    /// One that was just read; whether its topic is a retry topic says whose headers are believed.
    pub(crate) fn read(message: &BorrowedMessage<'_>, is_from_retries: bool) -> Self {
        // The client panics at a header whose name is not UTF-8.
        let headers = catch_unwind(AssertUnwindSafe(|| headers(message)));
        let content = Content {
            topic: message.topic().into(),
            partition: message.partition(),
            offset: u64::try_from(message.offset()).unwrap_or(0),
            key: message.key().map(Bytes::copy_from_slice),
            payload: message.payload().map(Bytes::copy_from_slice),
            is_unreadable: headers.is_err(),
            headers: headers.unwrap_or_default(),
            timestamp: message.timestamp().to_millis(),
            again: None,
        };
        Self(Arc::new(if is_from_retries {
            content.read_again()
        } else {
            content
        }))
    }

    /// Whether it has headers that cannot be read.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.0.is_unreadable
    }

    /// Topic, partition and offset.
    pub(crate) fn position(&self) -> String {
        format!("{}:{}:{}", self.0.topic, self.0.partition, self.0.offset)
    }

    pub(crate) fn shared_key(&self) -> Option<Bytes> {
        self.0.key.clone()
    }

    /// What it holds in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let headers = self.0.headers.iter();
        let headers =
            headers.map(|(name, value)| name.len() + value.as_ref().map_or(0, Bytes::len));
        let payload = self.0.payload.as_ref().map_or(0, Bytes::len);
        payload + self.0.key.as_ref().map_or(0, Bytes::len) + headers.sum::<usize>() + 256
    }

    /// How many attempts were made before it came to the retry topic; those of a replay count anew.
    pub(crate) fn attempts(&self) -> u32 {
        let again = self.0.again.as_ref().filter(|again| !again.is_replay);
        again.map_or(0, |again| again.attempts)
    }

    /// When it failed before it came to the retry topic, for the first time; a replay fails anew.
    fn first_failure(&self) -> Option<u64> {
        let again = self.0.again.as_ref().filter(|again| !again.is_replay);
        again?.first_failure
    }

    /// Whether it comes from a retry topic.
    pub(crate) fn comes_again(&self) -> bool {
        self.0.again.is_some()
    }

    /// How long until it is due; zero if it is.
    pub(crate) fn due_in(&self) -> Duration {
        let due = self.0.again.as_ref().map_or(0, |again| again.due);
        // Somebody else may have written it.
        Duration::from_millis(due.saturating_sub(now())).min(Ladder::LONGEST_RUNG)
    }

    /// As keys, decoders and extractors see it.
    pub(crate) fn envelope(&self) -> Envelope {
        let mut envelope = Envelope::builder(self.0.payload.clone().unwrap_or_default())
            .position(self.position())
            .headers(self.clone())
            .extension(self.clone());
        if let Some(id) = IDS.iter().find_map(|name| self.get(name)) {
            envelope = envelope.id(id.into_owned());
        }
        if let Some(millis) = self
            .0
            .timestamp
            .and_then(|millis| u64::try_from(millis).ok())
        {
            envelope = envelope.timestamp(millis);
        }
        envelope.build()
    }
}

impl Content {
    fn header(&self, name: &str) -> Option<&Bytes> {
        let mut named = self.headers.iter().rev().filter(|(own, _)| own == name);
        named.next()?.1.as_ref()
    }

    fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        std::str::from_utf8(self.header(name)?).ok()?.parse().ok()
    }

    /// A record of a retry topic, as that says.
    fn read_again(self) -> Self {
        let again = Again {
            attempts: self.number(ATTEMPT).unwrap_or(0),
            due: self.number(DUE).unwrap_or(0),
            first_failure: self.number(FIRST_FAILURE),
            is_replay: self.header(REASON).is_some(),
        };
        let topic = self
            .header(TOPIC)
            .and_then(|name| std::str::from_utf8(name).ok());
        let first = topic
            .map(Arc::from)
            .zip(self.number(PARTITION))
            .zip(self.number(OFFSET));
        let ((topic, partition), offset) =
            first.unwrap_or(((Arc::clone(&self.topic), self.partition), self.offset));
        let timestamp = self.number(TIMESTAMP).or(self.timestamp);
        Self {
            topic,
            partition,
            offset,
            timestamp,
            again: Some(again),
            ..self
        }
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// What is said of a record that goes elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) attempt: u32,
    pub(crate) error: Option<String>,
    pub(crate) key: Option<Key>,
}

/// A record as it is published to another topic.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) key: Option<Bytes>,
    pub(crate) payload: Option<Bytes>,
    pub(crate) headers: OwnedHeaders,
}

impl Outgoing {
    /// Without what idem says of an error, which may be long.
    pub(crate) fn shortened(self) -> Self {
        let mut headers = OwnedHeaders::new();
        for header in self.headers.iter().filter(|header| header.key != ERROR) {
            headers = headers.insert(header);
        }
        Self { headers, ..self }
    }
}

/// The record as it is put into the dead-letter topic.
pub(crate) fn dead_letter(record: &Record, reason: Reason, outcome: &Outcome) -> Outgoing {
    outgoing(record, outcome, (REASON, reason.as_str().to_owned()))
}

/// The record as it is put into the retry topic, to be handled after so long.
pub(crate) fn retry(record: &Record, after: Duration, outcome: &Outcome) -> Outgoing {
    let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
    let due = now().saturating_add(after).to_string();
    outgoing(record, outcome, (DUE, due))
}

fn outgoing(record: &Record, outcome: &Outcome, (name, value): (&str, String)) -> Outgoing {
    let content = &record.0;
    let mut headers = OwnedHeaders::new();
    // All that came with it, but what idem itself has written at an earlier attempt.
    let foreign = content.headers.iter();
    for (name, value) in foreign.filter(|(name, _)| !name.starts_with(OWN)) {
        headers = headers.insert(Header {
            key: name,
            value: value.as_deref(),
        });
    }
    let now = now();
    // Nothing keeps the time of attempts that were made here.
    let first_failure = record
        .first_failure()
        .or_else(|| (outcome.attempt <= 1).then_some(now));
    let own = [
        (TOPIC, Some(content.topic.to_string())),
        (PARTITION, Some(content.partition.to_string())),
        (OFFSET, Some(content.offset.to_string())),
        (
            TIMESTAMP,
            content.timestamp.map(|millis| millis.to_string()),
        ),
        (ATTEMPT, Some(outcome.attempt.to_string())),
        (FIRST_FAILURE, first_failure.map(|at| at.to_string())),
        (LAST_FAILURE, Some(now.to_string())),
        (ERROR, outcome.error.as_deref().map(cut)),
        (KEY, outcome.key.as_ref().map(|key| key.as_str().to_owned())),
        (name, Some(value)),
    ];
    for (name, value) in own {
        if let Some(value) = value {
            headers = headers.insert(Header {
                key: name,
                value: Some(value.as_bytes()),
            });
        }
    }
    Outgoing {
        key: content.key.clone(),
        payload: content.payload.clone(),
        headers,
    }
}

fn cut(error: &str) -> String {
    error[..error.floor_char_boundary(LONGEST_ERROR)].to_owned()
}
