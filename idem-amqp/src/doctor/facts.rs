//! What the doctor knows.

use std::time::Duration;

use idem_core::{Policy, executor::Sharing};

use super::{
    arguments::{Arguments, Kind, Limit},
    version::Version,
};
use crate::{topology::Queue, wire::QueueType};

/// What a finding is called that a queue's declaration is not known. Who accepts it is not asked to
/// look it up at every start.
pub(super) const HIDDEN: &str = "hidden";

/// What is known about a worker and its broker.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) broker: Product,
    /// Whether the store forgets its keys when the process ends.
    pub(crate) forgets: bool,
    /// Whether records stay for ever unless somebody else than this worker removes them.
    pub(crate) left_to_others: bool,
    /// For how long after it was first published a message may be published again.
    pub(crate) replay_window: Duration,
    pub(crate) queues: Vec<QueueFacts>,
}

/// What the broker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    RabbitMq(Version),
    /// Something else, or it does not say.
    Unknown,
    /// The broker was not asked, because nothing depends on it.
    NotAsked,
}

impl Product {
    pub(super) fn version(self) -> Option<Version> {
        match self {
            Self::RabbitMq(version) => Some(version),
            Self::Unknown | Self::NotAsked => None,
        }
    }
}

/// Batches of a handler's messages. Where all of it is the same, messages share calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Batches {
    /// The handler whose messages these are.
    pub(crate) handler: &'static str,
    pub(crate) timeout: Option<Duration>,
    pub(crate) lease: Duration,
    /// How many are in one at most.
    pub(crate) size: usize,
    /// Whether they are of a stream whose mark is the only record: a call takes what waits, whatever the concurrency.
    pub(crate) by_mark: bool,
}

/// What is known about one queue and its handler. Several stand one after the other if the queue has routes.
#[derive(Debug)]
pub(crate) struct QueueFacts {
    pub(crate) checked: CheckedQueue,
    pub(crate) answers: Answers,
}

/// One queue with its handler, or with one of its routes' handlers, as the worker knows them.
#[derive(Debug, Clone)]
pub(crate) struct CheckedQueue {
    pub(crate) queue: Queue,
    /// The handler's scope.
    pub(crate) handler: &'static str,
    pub(crate) policy: Policy,
    /// How many of its handlers the store lets run at once.
    pub(crate) at_once: Option<usize>,
    /// How its handler's messages share transactions, if they do.
    pub(crate) sharing: Option<Sharing>,
    /// The batches of its handler, if it has any.
    pub(crate) batch: Option<Batches>,
    /// How long the sessions of its clients live without a sign of life, if it serves any.
    pub(crate) life: Option<Duration>,
    /// If its handler's key is a place in a sequence.
    pub(crate) numbered: Option<Gaps>,
    /// Whether a table of its handler's own says what was handled.
    pub(crate) recorded: bool,
}

/// What the broker told about one queue, and about those that belong to it.
#[derive(Debug, Clone)]
pub(crate) struct Answers {
    pub(crate) declaration: Declaration,
    /// The same of its dead-letter queue.
    pub(crate) dead_letters: Declaration,
    /// The same of its queue of registrations, if it has one.
    pub(crate) registrations: Option<Declaration>,
    /// What the worker would be refused when it declares those that are there.
    pub(crate) refusals: Vec<String>,
}

/// What becomes of the numbers of a sequence that never come.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Gaps {
    WaitedFor,
    SkippedAfter(Duration),
}

/// What the broker told about a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Declaration {
    /// It was not asked: the worker declares the queue itself.
    Ours,
    /// How it was declared. Policies are not in it: AMQP does not tell them.
    Arguments(Arguments),
    /// The queue does not exist.
    Missing,
    /// The broker told nothing, because of this.
    Hidden(String),
}

impl Declaration {
    /// How often the broker may return a message of the queue, if it told that.
    pub(crate) fn delivery_limit(&self) -> Option<u64> {
        match self {
            Self::Arguments(arguments) if arguments.kind() == Kind::Quorum => {
                match arguments.delivery_limit()? {
                    Limit::Returns(returns) => Some(returns),
                    Limit::None => None,
                }
            }
            _ => None,
        }
    }
}

impl QueueFacts {
    pub(super) fn queue(&self) -> &Queue {
        &self.checked.queue
    }

    pub(super) fn arguments(&self) -> Option<&Arguments> {
        match &self.answers.declaration {
            Declaration::Arguments(arguments) => Some(arguments),
            Declaration::Ours | Declaration::Missing | Declaration::Hidden(_) => None,
        }
    }

    /// The queue's type, if it is known.
    pub(super) fn kind(&self) -> Option<Kind> {
        match self.queue().declared() {
            _ if self.queue().is_stream() => Some(Kind::Stream),
            Some(QueueType::Quorum) => Some(Kind::Quorum),
            Some(QueueType::Classic) => Some(Kind::Classic),
            None => self.arguments().map(Arguments::kind),
        }
    }

    /// How often the broker returns a message, if that is known and not without end. The least of
    /// what is declared, told and stated: so it is with arguments and policies, too.
    pub(super) fn limit(&self, broker: Option<Version>) -> Option<u64> {
        if self.kind() != Some(Kind::Quorum) {
            return self.queue().stated_limit();
        }
        let own = match self.answers.declaration {
            Declaration::Ours => Some(Limit::Returns(Queue::DELIVERY_LIMIT)),
            _ => self.arguments().and_then(Arguments::delivery_limit),
        };
        let by_itself = || broker.and_then(Version::default_delivery_limit);
        let of_broker = match own {
            Some(Limit::Returns(returns)) => Some(returns),
            Some(Limit::None) => None,
            None => by_itself(),
        };
        [of_broker, self.queue().stated_limit()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether a message that the broker gives up has nowhere to go, unless a policy says where.
    pub(super) fn has_no_target(&self) -> bool {
        self.arguments()
            .is_some_and(|arguments| !arguments.has(super::arguments::DEAD_LETTER_EXCHANGE))
    }
}
