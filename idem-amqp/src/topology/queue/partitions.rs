//! The partitions of a super stream, and what they are called.

use std::{collections::HashSet, sync::Arc};

/// The partitions of a [super stream](super::Queue::super_stream): each is a stream, which its exchange leads to by a
/// routing key.
///
/// | of | streams | routing keys |
/// |---|---|---|
/// | a number: `3` | `<name>-0`, `<name>-1`, `<name>-2` | `0`, `1`, `2` |
/// | routing keys: `["eu", "us"]` | `<name>-eu`, `<name>-us` | `eu`, `us` |
/// | [`Partitions::named`] | as they are named | as they are given |
///
/// The first two are those that `rabbitmq-streams add_super_stream` makes.
///
/// ```
/// use idem_amqp::{Partitions, Queue};
///
/// let by_number = Queue::super_stream("ledger", 3);
/// let by_region = Queue::super_stream("ledger", ["eu", "us"]);
/// let theirs = Partitions::named([("ledger.europe", "eu"), ("ledger.america", "us")]);
/// let theirs = Queue::existing_super_stream("ledger", theirs);
/// # drop((by_number, by_region, theirs));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partitions(Names);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Names {
    Numbered(u16),
    /// The partitions are named by their routing keys.
    Keyed(Vec<String>),
    /// A stream and its routing key, each.
    Named(Vec<(String, String)>),
}

impl Partitions {
    /// Streams of any names, each with its routing key.
    pub fn named<S: Into<String>, K: Into<String>>(
        streams: impl IntoIterator<Item = (S, K)>,
    ) -> Self {
        let streams = streams.into_iter();
        let streams = streams.map(|(stream, key)| (stream.into(), key.into()));
        Self(Names::Named(streams.collect()))
    }

    /// Streams with the name of the super stream, a hyphen and their routing key, each.
    pub fn by_keys<K: Into<String>>(keys: impl IntoIterator<Item = K>) -> Self {
        Self(Names::Keyed(keys.into_iter().map(Into::into).collect()))
    }

    /// The name of each stream, and its routing key.
    pub(super) fn of(&self, super_stream: &str) -> Vec<(String, String)> {
        let named = |key: &str| (format!("{super_stream}-{key}"), key.to_owned());
        match &self.0 {
            Names::Numbered(count) => (0..*count).map(|n| named(&n.to_string())).collect(),
            Names::Keyed(keys) => keys.iter().map(|key| named(key)).collect(),
            Names::Named(streams) => streams.clone(),
        }
    }

    /// Why a super stream cannot have these, if it cannot.
    pub(super) fn objection(&self, super_stream: &str) -> Option<&'static str> {
        let streams = self.of(super_stream);
        if streams.is_empty() {
            return Some("it has no partitions: give it one at least");
        }
        if streams.len() > MOST {
            return Some("it has more than 1,000 partitions, and a channel is opened for each");
        }
        let has_empty_keys =
            matches!(&self.0, Names::Keyed(keys) if keys.iter().any(String::is_empty));
        if has_empty_keys || streams.iter().any(|(stream, _)| stream.is_empty()) {
            return Some("the name of a partition is empty");
        }
        let (mut names, mut keys) = (HashSet::new(), HashSet::new());
        if !streams.iter().all(|(stream, _)| names.insert(stream)) {
            return Some("two of its partitions have the same name");
        }
        if !streams.iter().all(|(_, key)| keys.insert(key)) {
            return Some(
                "two of its partitions have the same routing key: both would get each message of that",
            );
        }
        if keys.iter().any(|key| key.len() > LONGEST) {
            return Some("the routing key of a partition is longer than 255 bytes");
        }
        None
    }
}

/// A connection has 2,047 channels, unless the broker says otherwise.
const MOST: usize = 1_000;

/// AMQP's names are no longer.
const LONGEST: usize = 255;

impl From<u16> for Partitions {
    fn from(count: u16) -> Self {
        Self(Names::Numbered(count))
    }
}

impl<K: Into<String>, const N: usize> From<[K; N]> for Partitions {
    fn from(keys: [K; N]) -> Self {
        Self::by_keys(keys)
    }
}

impl<K: Into<String>> From<Vec<K>> for Partitions {
    fn from(keys: Vec<K>) -> Self {
        Self::by_keys(keys)
    }
}

/// Which partition a stream is, of which super stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    /// The super stream, and so its exchange.
    pub(crate) super_stream: Arc<str>,
    pub(crate) routing_key: String,
    /// Counted from 0.
    pub(crate) order: u16,
    /// How many there are.
    pub(crate) of: u16,
}
