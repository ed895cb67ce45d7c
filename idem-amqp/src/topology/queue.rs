//! A queue to consume from, and how.

use std::{sync::Arc, time::Duration};

use idem_core::{Policy, settlement::Ladder};

use crate::wire::{
    QueueType,
    retries::{NativeDelay, Retries},
};

mod bindings;
mod dead_letters;
mod partitions;
mod replies;
mod single_active;
mod stated;
mod stream;
mod super_stream;

pub(crate) use bindings::Binding;
pub(crate) use dead_letters::DeadLetterTarget;
pub(crate) use partitions::Partition;
pub use partitions::Partitions;
use stated::Stated;
pub(crate) use stream::Stream;

/// A queue to consume from: whether the worker declares it, and how it consumes.
///
/// A message that failed, or whose key another worker holds for long, comes back later:
///
/// | | where it waits | default of |
/// |---|---|---|
/// | [`ladder`](Self::ladder) | in the broker, on a rung of the retry ladder | [`quorum`](Self::quorum), [`classic`](Self::classic) |
/// | [`local_retries`](Self::local_retries) | in the worker, unsettled | [`existing`](Self::existing) |
/// | [`native_retries`](Self::native_retries) | in the queue itself, which must be one of RabbitMQ 4.3 or later | |
///
/// A `&str` is [`Queue::quorum`] of that name.
///
/// ```
/// use idem_amqp::{Policy, Queue};
///
/// let ours = Queue::quorum("orders.charge").prefetch(16);
/// assert_eq!(ours.dead_letter_queue(), Some("orders.charge.dead"));
///
/// let theirs = Queue::existing("orders").dead_letters("orders-failed");
/// let theirs = theirs.policy(Policy::builder().max_attempts(3).build_const());
/// # drop(theirs);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    name: Arc<str>,
    kind: Option<QueueType>,
    dead_letters: DeadLetterTarget,
    prefetch: Option<u16>,
    concurrency: Option<u16>,
    max_waiting: Option<u16>,
    retries: Retries,
    policy: Option<Policy>,
    stated: Stated,
    in_sessions: bool,
    /// Whether one consumer at a time has all messages.
    is_single_active: bool,
    /// If it is a stream.
    stream: Option<Box<Stream>>,
    /// The exchanges whose messages it gets, beside what is sent to it by its name.
    bindings: Vec<Binding>,
    /// What addresses begin with that may be replied to; any may if nothing is said.
    reply_to_prefixes: Option<Vec<String>>,
}

impl Queue {
    /// Returns of one message until the broker dead-letters it from a declared quorum queue. The
    /// attempts are counted in the store; this is the last resort.
    pub(crate) const DELIVERY_LIMIT: u64 = 1000;

    /// How many messages the broker sends ahead of their acknowledgements, and how many are handled at once,
    /// unless said otherwise.
    pub const DEFAULT_PREFETCH: u16 = 64;

    /// A durable quorum queue, declared by the worker together with its dead-letter queue
    /// `<name>.dead` and the default retry [`Ladder`].
    pub fn quorum(name: impl Into<String>) -> Self {
        Self::of_type(name, QueueType::Quorum)
    }

    /// A durable classic queue, declared as a [`quorum`](Self::quorum) queue is. After a crash of the
    /// broker it may deliver settled messages again.
    pub fn classic(name: impl Into<String>) -> Self {
        Self::of_type(name, QueueType::Classic)
    }

    /// A queue of this type, declared by the worker: for a program that reads the type from its
    /// configuration.
    pub fn of_type(name: impl Into<String>, kind: QueueType) -> Self {
        let ladder = Retries::Ladder(Ladder::default());
        Self::new(&name.into(), Some(kind), ladder)
    }

    /// A queue that somebody else declares; its topology is left untouched. The dead-letter queue
    /// `<name>.dead`, or what [`dead_letters`](Self::dead_letters) or
    /// [`dead_letter_exchange`](Self::dead_letter_exchange) names, must exist too.
    pub fn existing(name: impl Into<String>) -> Self {
        Self::new(&name.into(), None, Retries::Local)
    }

    fn new(name: &str, kind: Option<QueueType>, retries: Retries) -> Self {
        Self {
            dead_letters: DeadLetterTarget::Queue(format!("{name}.dead")),
            name: name.into(),
            kind,
            prefetch: None,
            concurrency: None,
            max_waiting: None,
            retries,
            policy: None,
            stated: Stated::default(),
            in_sessions: false,
            is_single_active: false,
            stream: None,
            bindings: Vec::new(),
            reply_to_prefixes: None,
        }
    }

    /// How many unacknowledged messages the broker lets this worker have, at least 1: its channel's prefetch.
    /// Unless set, as many as are handled [at once](Self::concurrency), or 64.
    ///
    /// With 1, the broker sends the next message when this one is done with: no message waits behind a long
    /// handler while another worker is idle (fair dispatch). One worker then handles the messages in the order of
    /// the queue; one that is delivered again, or comes back later, lets others pass.
    pub fn prefetch(mut self, messages: u16) -> Self {
        self.prefetch = Some(messages.max(1));
        self
    }

    /// How many messages are handled at once, at least 1 and never more than the [prefetch](Self::prefetch);
    /// as many as the prefetch unless set.
    ///
    /// With less than the prefetch, the others are in the worker when a handler has finished: worth it
    /// where handlers are short. With more than 1 there is no order.
    pub fn concurrency(mut self, handlers: u16) -> Self {
        self.concurrency = Some(handlers.max(1));
        self
    }

    /// How many of the prefetched messages may wait in the worker, because of a conflict or until their next
    /// attempt. Unless set half of the [prefetch](Self::prefetch), or what it has beyond the
    /// [concurrency](Self::concurrency) if that is more. The rest of the prefetch stays free for new messages.
    ///
    /// When so many wait, a further one goes to the retry ladder. Without a ladder it waits for a moment among
    /// those that are handled, and is returned to the queue. So when very many fail at once (the service behind them is
    /// down, say), a queue without a ladder is consumed only as fast as their backoff allows; and with a prefetch
    /// of 1, it stands still while its only message waits.
    pub fn max_waiting(mut self, messages: u16) -> Self {
        self.max_waiting = Some(messages);
        self
    }

    /// Lets messages wait for their next attempt on the rungs of this ladder: other rungs than the
    /// default ones, or a ladder for an existing queue.
    ///
    /// The worker declares exchanges and queues named `idem.*` in the vhost for that, and binds
    /// the queue to the exchange `idem.return`. Its user needs the permissions to do so.
    pub fn ladder(mut self, ladder: Ladder) -> Self {
        self.retries = Retries::Ladder(ladder);
        self
    }

    /// Lets messages wait for their next attempt in the worker, and returns them with
    /// `nack(requeue)`. Each return counts towards a quorum queue's delivery limit up to RabbitMQ
    /// 4.2; close to it a message is kept in the worker.
    pub fn local_retries(mut self) -> Self {
        self.retries = Retries::Local;
        self
    }

    /// Returns messages to the queue at once, which itself delays them before it delivers them
    /// again: the delayed retry of quorum queues of RabbitMQ 4.3 and later.
    ///
    /// A declared queue gets the arguments for it. An existing one is trusted to have them, or a
    /// policy that says the same. The queue delays what the worker returns by `min`; `max` limits
    /// the delay that grows with the crashes of workers. What is left of a longer backoff the
    /// message waits for in the worker.
    pub fn native_retries(mut self, min: Duration, max: Duration) -> Self {
        self.retries = Retries::Native(NativeDelay { min, max });
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

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Lets clients open sessions for it.
    pub(crate) fn in_sessions(mut self) -> Self {
        self.in_sessions = true;
        self
    }

    /// The queue of its clients' registrations and heartbeats, if it serves sessions. Apart, so that
    /// no backlog of requests makes a session end.
    pub(crate) fn control_queue(&self) -> Option<String> {
        self.in_sessions.then(|| format!("{}.sessions", self.name))
    }

    pub(crate) fn declared(&self) -> Option<QueueType> {
        self.kind
    }

    pub(crate) fn retries(&self) -> &Retries {
        &self.retries
    }

    /// Why its messages cannot come back as it says, if they cannot.
    pub(crate) fn impossible_retries(&self) -> Option<&'static str> {
        if self.is_stream() && !self.has_ladder() {
            return Some(
                "it is a stream, which takes nothing back: leave `local_retries` and `native_retries` out",
            );
        }
        match &self.retries {
            Retries::Native(delay) => delay.objection(self.kind),
            Retries::Ladder(_) | Retries::Local => None,
        }
    }

    pub(crate) fn has_ladder(&self) -> bool {
        matches!(self.retries, Retries::Ladder(_))
    }

    /// How many unsettled messages the broker sends to a channel (`basic.qos`).
    pub(crate) fn broker_prefetch(&self) -> u16 {
        let stated = self.prefetch.or(self.concurrency);
        stated.unwrap_or(Self::DEFAULT_PREFETCH)
    }

    /// How many handlers run at once.
    pub(crate) fn handlers(&self) -> usize {
        let window = self.broker_prefetch();
        self.concurrency.unwrap_or(window).min(window).into()
    }

    /// The same, if somebody has said so: by the concurrency, or by the prefetch.
    pub(crate) fn stated_handlers(&self) -> Option<usize> {
        let stated = self.concurrency.or(self.prefetch);
        stated.map(|_| self.handlers())
    }

    /// How many messages may wait beside them.
    pub(crate) fn waiting(&self) -> usize {
        let window = usize::from(self.broker_prefetch());
        // docs/decisions/0028
        let unless_set = (window / 2).max(window - self.handlers());
        self.max_waiting
            .map_or(unless_set, |most| window.min(most.into()))
    }

    /// Whether more handlers are asked for than there will ever be messages.
    pub(crate) fn handlers_in_vain(&self) -> bool {
        self.concurrency > Some(self.broker_prefetch())
    }

    pub(crate) fn policy_or(&self, handlers_own: Policy) -> Policy {
        self.policy.unwrap_or(handlers_own)
    }
}

impl From<&str> for Queue {
    fn from(name: &str) -> Self {
        Self::quorum(name)
    }
}

impl From<String> for Queue {
    fn from(name: String) -> Self {
        Self::quorum(name)
    }
}

impl From<&String> for Queue {
    fn from(name: &String) -> Self {
        Self::quorum(name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the broker is told, how many handlers run, how many messages may wait.
    fn numbers(queue: &Queue) -> (u16, usize, usize) {
        (queue.broker_prefetch(), queue.handlers(), queue.waiting())
    }

    #[test]
    fn prefetch_and_concurrency_are_the_same_number_unless_both_are_set() {
        let queue = || Queue::quorum("orders");
        let table = [
            (queue(), (64, 64, 32)),
            (queue().prefetch(1), (1, 1, 0)),
            (queue().prefetch(0), (1, 1, 0)),
            (queue().prefetch(2), (2, 2, 1)),
            (queue().concurrency(10), (10, 10, 5)),
            (queue().prefetch(100).concurrency(10), (100, 10, 90)),
            (queue().prefetch(100).concurrency(80), (100, 80, 50)),
            (queue().prefetch(10).concurrency(100), (10, 10, 5)),
            (queue().prefetch(10).max_waiting(0), (10, 10, 0)),
            (queue().prefetch(10).max_waiting(100), (10, 10, 10)),
        ];
        for (queue, expected) in table {
            assert_eq!(numbers(&queue), expected, "{queue:?}");
        }
    }
}
