//! A queue to consume from, and how.

use idem_core::Policy;

/// A queue to consume from: whether the worker declares it, and how it consumes.
///
/// A `&str` is [`Queue::declare`] of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    name: String,
    kind: Option<QueueType>,
    dead_letters: String,
    prefetch: u16,
    held: Option<u16>,
    policy: Option<Policy>,
}

/// The type of a declared queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueType {
    /// Replicated over the nodes of a cluster; keeps settlements over a broker's crash.
    Quorum,
    /// On one node; may deliver settled messages again after a broker's crash.
    Classic,
}

impl Queue {
    /// Returns of one message until the broker dead-letters it from a declared quorum queue. The
    /// attempts are counted in the store; this is the last resort.
    pub(crate) const DELIVERY_LIMIT: u64 = 1000;

    /// How many messages are handled at once, unless said otherwise.
    pub const DEFAULT_PREFETCH: u16 = 64;

    /// A durable quorum queue, declared by the worker together with its dead-letter queue
    /// `<name>.dead`.
    pub fn declare(name: impl Into<String>) -> Self {
        Self::new(name.into(), Some(QueueType::Quorum))
    }

    /// A queue that somebody else declares; its topology is left untouched. The dead-letter queue
    /// `<name>.dead`, or the one named by [`dead_letters`](Self::dead_letters), must exist too.
    pub fn existing(name: impl Into<String>) -> Self {
        Self::new(name.into(), None)
    }

    fn new(name: String, kind: Option<QueueType>) -> Self {
        Self {
            dead_letters: format!("{name}.dead"),
            name,
            kind,
            prefetch: Self::DEFAULT_PREFETCH,
            held: None,
            policy: None,
        }
    }

    /// Declares a classic queue instead of a quorum queue. No effect on an existing queue.
    pub fn classic(mut self) -> Self {
        self.kind = self.kind.map(|_| QueueType::Classic);
        self
    }

    /// How many messages are handled at once, at least 1; 64 unless set.
    pub fn prefetch(mut self, messages: u16) -> Self {
        self.prefetch = messages.max(1);
        self
    }

    /// How many further messages may wait in the worker, held because of a conflict or until
    /// their next attempt; as many as the prefetch unless set. The channel's prefetch is the sum.
    ///
    /// When all of these are taken, a failed message waits for its next attempt among those that
    /// are handled. So when very many fail at once (the service behind them is down, say), the
    /// queue is consumed only as fast as their backoff allows.
    pub fn held(mut self, messages: u16) -> Self {
        self.held = Some(messages);
        self
    }

    /// Names the dead-letter queue; `<name>.dead` unless set.
    pub fn dead_letters(mut self, queue: impl Into<String>) -> Self {
        self.dead_letters = queue.into();
        self
    }

    /// Uses this policy instead of the handler's own.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dead-letter queue's name.
    pub fn dead_letter_queue(&self) -> &str {
        &self.dead_letters
    }

    /// How often a message may be returned before the broker drops or dead-letters it. Of an
    /// existing queue the least is assumed that a broker sets by itself, RabbitMQ 4's.
    pub(crate) fn delivery_limit(&self) -> u64 {
        match self.kind {
            Some(_) => Self::DELIVERY_LIMIT,
            None => 20,
        }
    }

    pub(crate) fn declared(&self) -> Option<QueueType> {
        self.kind
    }

    pub(crate) fn concurrency(&self) -> usize {
        self.prefetch.into()
    }

    pub(crate) fn held_cap(&self) -> usize {
        self.held.unwrap_or(self.prefetch).into()
    }

    /// What the channel is told: room for the running ones and the held ones.
    pub(crate) fn channel_prefetch(&self) -> u16 {
        self.prefetch
            .saturating_add(self.held.unwrap_or(self.prefetch))
    }

    pub(crate) fn policy_or(&self, handlers_own: Policy) -> Policy {
        self.policy.unwrap_or(handlers_own)
    }
}

impl From<&str> for Queue {
    fn from(name: &str) -> Self {
        Self::declare(name)
    }
}

impl From<String> for Queue {
    fn from(name: String) -> Self {
        Self::declare(name)
    }
}

impl From<&String> for Queue {
    fn from(name: &String) -> Self {
        Self::declare(name.as_str())
    }
}
