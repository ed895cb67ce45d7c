//! Records of Kafka, for tests of handlers without a broker.
//!
//! A [`Record`] becomes a [`Message`] of the [harness](crate::Harness): its handler finds the record's key and
//! headers, its position, and the [`Record`](idem_kafka::Record) itself, as if a worker had read it.
//!
//! ```test_harness
//! use std::sync::Mutex;
//! use idem_core::{Failed, State, executor::ExecutionKind, idempotent};
//! use idem_testing::{Setup, assert_idempotent, kafka::Record};
//! # use std::{collections::BTreeMap, sync::Arc};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Serialize, Deserialize)]
//! # struct Posting { account: String, cents: i64 }
//!
//! /// What the handler books into, by the place of the posting: a second booking changes nothing.
//! #[derive(Clone, Default)]
//! struct Book(Arc<Mutex<BTreeMap<u64, i64>>>);
//!
//! // The scope is durable: it stands in every key.
//! #[idempotent(key = position(), scope = "postings.book")]
//! async fn book(posting: Posting, from: idem_kafka::Record, State(book): State<Book>) -> Result<(), Failed> {
//!     book.0.lock().unwrap().insert(from.offset(), posting.cents);
//!     Ok(())
//! }
//!
//! #[tokio::test(start_paused = true)]
//! async fn a_posting_is_booked_once() {
//!     let harness = Setup::new(Book::default).handler::<book>();
//!     let posting = Posting { account: "a-1".into(), cents: 1250 };
//!     let record = Record::json(&posting).at("postings", 0, 17).key("a-1").message();
//!
//!     assert_eq!(harness.deliver(&record).await.kind(), ExecutionKind::Executed);
//!     // After a rebalance it is read again.
//!     assert_eq!(harness.deliver(&record.redelivered()).await.kind(), ExecutionKind::Duplicate);
//!
//!     assert_idempotent(&harness, &record, async |run| run.state().0.lock().unwrap().clone()).await;
//! }
//! ```
//!
//! # What it cannot show
//! Where a record goes that was not handled: to the retry topic, to the dead-letter topic, or nowhere while its
//! partition stops. The options of its [`Topic`](idem_kafka::Topic) say that (`docs/kafka.md`). Nor the order of
//! records, nor a record whose header has a name that is not UTF-8.
//!
//! A record is always one of the topic itself, never of its retry topic: headers `idem-…` are not believed, attempts
//! count from 1, and `Record::is_replay` is false also in a message that was `replayed()`. A handler of batches whose
//! key is the position claims each key here, and keeps a record of it; a worker with a connection does neither
//! (`docs/kafka.md`). A key with `sequence(…)`, which a worker refuses, is not refused here.

use std::time::SystemTime;

use bytes::Bytes;
use idem_kafka::Undelivered;
use serde::Serialize;

use crate::Message;

/// A record as a test writes it: of the topic `topic`, from the beginning of its partition 0.
#[derive(Debug, Clone)]
#[must_use]
pub struct Record(Undelivered);

impl Record {
    /// With a value as JSON.
    ///
    /// # Panics
    /// If JSON cannot express it.
    pub fn json(value: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(payload) => Self::of(Some(payload.into())),
            Err(error) => panic!("the record cannot be written as JSON: {error}"),
        }
    }

    /// With any payload.
    pub fn bytes(payload: impl AsRef<[u8]>) -> Self {
        Self::of(Some(copy(payload)))
    }

    /// Without a payload: in a compacted topic it deletes what stands under its key.
    pub fn tombstone() -> Self {
        Self::of(None)
    }

    fn of(payload: Option<Bytes>) -> Self {
        Self(Undelivered {
            topic: "topic".into(),
            payload,
            ..Undelivered::default()
        })
    }

    /// Where it stands.
    pub fn at(mut self, topic: &str, partition: i32, offset: u64) -> Self {
        (self.0.topic, self.0.partition, self.0.offset) = (topic.into(), partition, offset);
        self
    }

    /// Its key.
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Self {
        self.0.key = Some(copy(key));
        self
    }

    /// Adds a header.
    pub fn header(self, name: impl Into<String>, value: impl AsRef<[u8]>) -> Self {
        self.headed(name.into(), Some(copy(value)))
    }

    /// Adds a header that has a name and no value, not even an empty one.
    pub fn header_without_value(self, name: impl Into<String>) -> Self {
        self.headed(name.into(), None)
    }

    fn headed(mut self, name: String, value: Option<Bytes>) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// When it was made, to the millisecond.
    ///
    /// # Panics
    /// If that was before 1970, or is more than 292 million years later.
    pub fn timestamp(mut self, at: SystemTime) -> Self {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).ok();
        let millis = since.and_then(|since| i64::try_from(since.as_millis()).ok());
        self.0.timestamp = Some(millis.expect("a time that Kafka can express"));
        self
    }

    /// What a worker delivers.
    pub fn message(self) -> Message {
        self.0.into_envelope().into()
    }
}

fn copy(bytes: impl AsRef<[u8]>) -> Bytes {
    Bytes::copy_from_slice(bytes.as_ref())
}

impl From<Record> for Message {
    fn from(record: Record) -> Self {
        record.message()
    }
}
