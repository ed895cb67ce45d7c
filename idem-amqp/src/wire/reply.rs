//! What a requester is told: the message that goes to its `reply_to`, and what became of it.

use std::{
    fmt,
    panic::catch_unwind,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use idem_core::{
    Outcome,
    handler::{Answer, Operation, Refusal},
};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, LongString},
};
use uuid::Uuid;

use crate::wire::{
    Publication,
    delivery::Delivery,
    headers::{REDELIVERED, REFUSAL, REPLAYED},
};

mod address;

pub(crate) use address::{Address, Node};

const TRANSIENT: u8 = 1;
const PERSISTENT: u8 = 2;

/// A reply before it is addressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    body: Vec<u8>,
    /// The code, if the reply is an error.
    refusal: Option<String>,
    /// The error of a refusal that somebody has to hear of: if the requester does not, a person has to.
    to_be_heard: Option<String>,
    replayed: bool,
}

impl Reply {
    /// What was remembered, just now.
    pub(crate) fn new(outcome: &Outcome) -> Self {
        match outcome.answer() {
            Answer::Output(output) => Self::output(output.to_vec()),
            Answer::Rejected(refusal) => Self::rejection(&refusal),
            Answer::Forgotten(refusal) => Self::refusal(&refusal),
            _ => unreachable!("an outcome is an output, a rejection, or forgotten"),
        }
    }

    /// A handler's rejection for good.
    pub(crate) fn rejection(refusal: &Refusal) -> Self {
        Self::to_be_heard(refusal)
    }

    /// An error that somebody has to hear of: if it does not reach the requester, the request is dead-lettered.
    pub(crate) fn to_be_heard(refusal: &Refusal) -> Self {
        Self {
            to_be_heard: Some(refusal.message().to_owned()),
            ..Self::refusal(refusal)
        }
    }

    /// An error.
    pub(crate) fn refusal(refusal: &Refusal) -> Self {
        Self {
            body: refusal.to_json(),
            refusal: Some(refusal.code().to_owned()),
            to_be_heard: None,
            replayed: false,
        }
    }

    /// What was remembered, as requesters of this handler read it today.
    pub(crate) fn recalled<H: Operation>(outcome: &Outcome) -> Self {
        let reply = match outcome.answer() {
            Answer::Output(output) => match catch_unwind(|| H::recall(output)) {
                Ok(Ok(output)) => Self::output(output.into_owned()),
                Ok(Err(refusal)) => Self::refusal(&refusal),
                Err(_) => {
                    let error = "reading the remembered output panicked";
                    Self::refusal(&Refusal::new(Refusal::OUTCOME_OUTDATED, error))
                }
            },
            _ => Self::new(outcome),
        };
        Self {
            replayed: true,
            ..reply
        }
    }

    /// No error.
    pub(crate) fn output(body: Vec<u8>) -> Self {
        Self {
            body,
            refusal: None,
            to_be_heard: None,
            replayed: false,
        }
    }

    /// Its body, whether that is a refusal, and whether it is repeated from memory.
    #[cfg(feature = "testing")]
    pub(crate) fn into_parts(self) -> (Vec<u8>, bool, bool) {
        (self.body, self.refusal.is_some(), self.replayed)
    }

    /// The error that a person has to hear of if this did not reach its requester.
    pub(crate) fn unheard(&self) -> Option<&str> {
        self.to_be_heard.as_deref()
    }

    /// The message, to the requester of this very delivery: an earlier one's may be gone.
    pub(crate) fn publication(&self, to: &str, request: &Delivery) -> Publication {
        let is_direct = Address::is_direct(to);
        let mode = if is_direct { TRANSIENT } else { PERSISTENT };
        let mut properties = BasicProperties::default()
            .with_delivery_mode(mode)
            .with_content_type("application/json".into())
            .with_message_id(Uuid::now_v7().to_string().into())
            .with_headers(self.headers(request));
        if let Some(correlation) = request.origin().properties.correlation_id() {
            properties = properties.with_correlation_id(correlation.clone());
        }
        let reply = Publication::raw("", to, self.body.clone(), properties);
        // Up to RabbitMQ 4.1 the broker returns what it has delivered so, from 4.2 on nothing.
        if is_direct { reply.optional() } else { reply }
    }

    fn headers(&self, request: &Delivery) -> FieldTable {
        let mut headers = FieldTable::default();
        headers.insert(REPLAYED.into(), AMQPValue::Boolean(self.replayed));
        if let Some(code) = &self.refusal {
            let code = LongString::from(code.as_str());
            headers.insert(REFUSAL.into(), AMQPValue::LongString(code));
            let redelivered = AMQPValue::Boolean(request.may_have_run());
            headers.insert(REDELIVERED.into(), redelivered);
        }
        headers
    }
}

/// What became of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyOutcome {
    /// The broker has it. A direct reply-to has no queue: whether the requester is still there, only
    /// the requester knows.
    Sent,
    /// The queue that the requester named is not there any more.
    RequesterGone,
    /// The broker did not take it, time and again. The requester gets it when it asks again with the
    /// same key.
    Lost,
    /// It was not sent: the queue's options do not allow the address
    /// ([`Queue::reply_to_prefixes`](crate::Queue::reply_to_prefixes)), or it is a malformed one of a
    /// direct reply. The message was handled as one that asks for no reply.
    Disallowed,
}

/// Replies of a worker, by what became of them and what they were.
///
/// ```
/// use idem_amqp::worker::WorkerStats;
///
/// fn tell(balance: &WorkerStats) {
///     let replies = balance.replies();
///     println!("{replies}: {} were repeated from memory", replies.replayed);
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReplyStats {
    /// Replies that the broker has confirmed.
    pub sent: u64,
    /// How many of the sent replies came from memory: nothing ran for them.
    pub replayed: u64,
    /// How many of the sent replies were errors.
    pub refused: u64,
    /// Replies whose queues were not there any more.
    pub requester_gone: u64,
    /// Replies that the broker did not take.
    pub lost: u64,
    /// Replies that were not sent, because the queue does not allow the address, or it is malformed.
    pub disallowed: u64,
}

/// `replies=12 replayed=2 refused=1`, and `gone=1 lost=1 disallowed=1` if there were any.
impl fmt::Display for ReplyStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replies={}", self.sent)?;
        let further = [
            ("replayed", self.replayed),
            ("refused", self.refused),
            ("gone", self.requester_gone),
            ("lost", self.lost),
            ("disallowed", self.disallowed),
        ];
        let mut occurred = further.iter().filter(|(_, count)| *count > 0);
        occurred.try_for_each(|(what, count)| write!(f, " {what}={count}"))
    }
}

/// Counts while the worker runs.
#[derive(Debug, Default)]
pub(crate) struct ReplyCounters {
    sent: AtomicU64,
    replayed: AtomicU64,
    refused: AtomicU64,
    requester_gone: AtomicU64,
    lost: AtomicU64,
    disallowed: AtomicU64,
}

impl ReplyCounters {
    pub(crate) fn count(&self, reply: &Reply, outcome: ReplyOutcome) {
        match outcome {
            ReplyOutcome::Sent => {
                self.sent.fetch_add(1, Relaxed);
                self.replayed.fetch_add(reply.replayed.into(), Relaxed);
                self.refused
                    .fetch_add(reply.refusal.is_some().into(), Relaxed);
            }
            ReplyOutcome::RequesterGone => {
                self.requester_gone.fetch_add(1, Relaxed);
            }
            ReplyOutcome::Lost => {
                self.lost.fetch_add(1, Relaxed);
            }
            ReplyOutcome::Disallowed => self.disallow(),
        }
    }

    /// Counts one that was not made.
    pub(crate) fn disallow(&self) {
        self.disallowed.fetch_add(1, Relaxed);
    }

    pub(crate) fn replies(&self) -> ReplyStats {
        ReplyStats {
            sent: self.sent.load(Relaxed),
            replayed: self.replayed.load(Relaxed),
            refused: self.refused.load(Relaxed),
            requester_gone: self.requester_gone.load(Relaxed),
            lost: self.lost.load(Relaxed),
            disallowed: self.disallowed.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests;
