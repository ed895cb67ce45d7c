//! What an existing queue was declared with.

use std::{collections::BTreeMap, time::Duration};

/// The properties and arguments of a queue that somebody else declared. Policies may add to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(super) durable: bool,
    pub(super) auto_delete: bool,
    /// The arguments as texts: AMQP's types do not matter here.
    pub(super) values: BTreeMap<String, String>,
}

/// What a queue does with its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Classic,
    Quorum,
    Stream,
    /// One that we do not know.
    Other,
}

/// What RabbitMQ calls the dead-letter exchange of a queue.
pub(super) const DEAD_LETTER_EXCHANGE: &str = "x-dead-letter-exchange";
pub(super) const DELIVERY_LIMIT: &str = "x-delivery-limit";

impl Arguments {
    pub(super) fn kind(&self) -> Kind {
        match self.text("x-queue-type") {
            None | Some("classic") => Kind::Classic,
            Some("quorum") => Kind::Quorum,
            Some("stream") => Kind::Stream,
            Some(_) => Kind::Other,
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    pub(super) fn milliseconds(&self, name: &str) -> Option<Duration> {
        let number = self.text(name)?.parse().ok()?;
        Some(Duration::from_millis(number))
    }

    /// Whether its oldest messages make room for new ones.
    pub(super) fn drops_when_full(&self) -> bool {
        let bounded = self.has("x-max-length") || self.has("x-max-length-bytes");
        bounded && matches!(self.text("x-overflow"), None | Some("drop-head"))
    }

    /// How often a message may be returned; a negative number is no limit.
    pub(crate) fn delivery_limit(&self) -> Option<Limit> {
        let number: i64 = self.text(DELIVERY_LIMIT)?.parse().ok()?;
        Some(u64::try_from(number).map_or(Limit::None, Limit::Returns))
    }
}

/// How often a queue returns a message before it drops or dead-letters it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// There is no limit.
    None,
    /// It returns a message so many times.
    Returns(u64),
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            durable: true,
            auto_delete: false,
            values: BTreeMap::new(),
        }
    }
}
