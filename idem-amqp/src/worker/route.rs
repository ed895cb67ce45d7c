//! Which messages of a queue a handler takes: by the property `type`, by a header, or by a pattern of routing keys.
//!
//! `Routes` makes a [`Route`] for each of a queue's handlers, and `Consumer` asks them in turn. What must stay true: a
//! message has the same route each time it comes, also from the retry ladder and as a dead letter that was sent again.

use std::{borrow::Cow, fmt, sync::Arc};

use idem_core::message::HeaderSource as _;
use lapin::types::ShortString;

use crate::{telemetry::Meters, wire::Delivery};

/// The property of a message by which the routes of a queue choose.
#[derive(Debug, Clone)]
pub(super) enum By {
    Type,
    Header(Arc<str>),
    RoutingKey,
}

impl By {
    pub(super) fn value<'a>(&self, delivery: &'a Delivery) -> Option<Cow<'a, str>> {
        match self {
            Self::Type => {
                let kind = delivery.origin().properties.kind().as_ref();
                kind.map(ShortString::as_str).map(Cow::Borrowed)
            }
            Self::Header(name) => delivery.get(name),
            // The one that it was published with: on the ladder, and as a dead letter, it has another.
            Self::RoutingKey => Some(Cow::Borrowed(delivery.routing_key())),
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type => f.write_str("property `type`"),
            Self::Header(name) => write!(f, "header `{name}`"),
            Self::RoutingKey => f.write_str("routing key"),
        }
    }
}

/// Which messages of a queue a handler takes.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) by: By,
    takes: String,
    /// Its place among the routes of its queue.
    at: usize,
    /// What is measured of messages that none of these takes.
    pub(super) rest: Arc<Meters>,
}

impl Route {
    pub(super) fn new(by: By, takes: String, at: usize, rest: &Arc<Meters>) -> Self {
        Self {
            by,
            takes,
            at,
            rest: Arc::clone(rest),
        }
    }

    /// Whether another route of the same queue stands before it.
    pub(super) fn is_further(&self) -> bool {
        self.at > 0
    }

    /// Whether it takes this message, if those before it do not.
    pub(super) fn takes(&self, delivery: &Delivery) -> bool {
        let Some(value) = self.by.value(delivery) else {
            return false;
        };
        match self.by {
            By::RoutingKey => is_matched(&words(&self.takes), &words(&value)),
            By::Type | By::Header(_) => value == self.takes,
        }
    }
}

/// The words of a routing key as RabbitMQ takes them apart: a word may be empty, and an empty key has none.
fn words(key: &str) -> Vec<&str> {
    match key {
        "" => Vec::new(),
        key => key.split('.').collect(),
    }
}

/// Whether these words match this pattern. Goes back to the last `#` alone, so that no pattern takes long.
fn is_matched(pattern: &[&str], key: &[&str]) -> bool {
    let (mut at, mut word) = (0, 0);
    // Behind the last `#`, and the words that it does not stand for.
    let mut last: Option<(usize, usize)> = None;
    while word < key.len() {
        match pattern.get(at) {
            Some(&"#") => {
                last = Some((at + 1, word));
                at += 1;
            }
            Some(own) if *own == "*" || *own == key[word] => {
                at += 1;
                word += 1;
            }
            _ => {
                let Some((behind, first)) = last else {
                    return false;
                };
                // It stands for one word more.
                last = Some((behind, first + 1));
                (at, word) = (behind, first + 1);
            }
        }
    }
    pattern[at..].iter().all(|own| *own == "#")
}

#[cfg(test)]
mod tests;
