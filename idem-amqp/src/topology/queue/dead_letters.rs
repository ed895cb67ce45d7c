//! Where messages go that ended for good.

use std::fmt;

use super::Queue;

/// Where a queue's dead letters go, those of the broker among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeadLetterTarget {
    /// Dead letters go by the default exchange, to the queue of this name.
    Queue(String),
    /// Dead letters go to an exchange that somebody else declares.
    Exchange {
        name: String,
        /// Their own, if there is none.
        routing_key: Option<String>,
    },
}

/// AMQP's names are no longer, nor are its routing keys.
const LONGEST: usize = 255;

impl DeadLetterTarget {
    /// Whether nothing can be called so.
    pub(crate) fn is_impossible(&self) -> bool {
        match self {
            Self::Queue(name) => name.len() > LONGEST,
            Self::Exchange { name, routing_key } => {
                let key = routing_key.as_deref().unwrap_or_default();
                name.is_empty() || name.len() > LONGEST || key.len() > LONGEST
            }
        }
    }

    /// The exchange, and the routing key of a letter whose message was published with this one.
    pub(crate) fn address<'a>(&'a self, own: &'a str) -> (&'a str, &'a str) {
        match self {
            Self::Queue(name) => ("", name),
            Self::Exchange { name, routing_key } => (name, routing_key.as_deref().unwrap_or(own)),
        }
    }
}

/// ``queue `orders.dead` ``
impl fmt::Display for DeadLetterTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => write!(f, "queue `{name}`"),
            Self::Exchange { name, .. } => write!(f, "exchange `{name}`"),
        }
    }
}

impl Queue {
    /// Names the dead-letter queue; `<name>.dead` unless set.
    pub fn dead_letters(mut self, queue: impl Into<String>) -> Self {
        self.dead_letters = DeadLetterTarget::Queue(queue.into());
        self.with_stream(|stream| stream.has_own_dead_letters = true)
    }

    /// Sends dead letters to an exchange instead of a queue: with this routing key, or with `None` by the one that each
    /// message was published with.
    ///
    /// The exchange must exist, and lead each letter to a queue. A letter that it leads nowhere stays with the worker,
    /// which tries again; what the broker itself dead-letters is lost then, or held back, as its own rules say. Which
    /// queues get the letters, nobody tells: the doctor cannot look at them. A declared queue has the exchange for its
    /// `x-dead-letter-exchange`, so this cannot be changed for a queue that is there.
    ///
    /// ```
    /// use idem_amqp::Queue;
    ///
    /// let all_in_one = Queue::quorum("orders.charge").dead_letter_exchange("failed", "orders.charge");
    /// let by_their_own = Queue::existing("orders").dead_letter_exchange("failed", None);
    /// assert_eq!(by_their_own.dead_letter_queue(), None);
    /// # drop(all_in_one);
    /// ```
    pub fn dead_letter_exchange<'a>(
        mut self,
        exchange: impl Into<String>,
        routing_key: impl Into<Option<&'a str>>,
    ) -> Self {
        self.dead_letters = DeadLetterTarget::Exchange {
            name: exchange.into(),
            routing_key: routing_key.into().map(Into::into),
        };
        self
    }

    /// The dead-letter queue's name; none if dead letters go to an exchange.
    pub fn dead_letter_queue(&self) -> Option<&str> {
        match &self.dead_letters {
            DeadLetterTarget::Queue(name) => Some(name),
            DeadLetterTarget::Exchange { .. } => None,
        }
    }

    pub(crate) fn dead_letter_target(&self) -> &DeadLetterTarget {
        &self.dead_letters
    }
}
