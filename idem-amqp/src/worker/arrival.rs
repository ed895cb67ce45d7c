//! A delivery as it arrived, and how it ended.

use idem_core::{Envelope, Key, executor::ExecutionKind, settlement::Settlement};

use crate::{
    topology::Queue,
    wire::{Delivery, reply::Reply},
};

/// A message as it arrived.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) delivery: Delivery,
    pub(super) envelope: Envelope,
    /// Why it is not replied to, though it has a `reply_to`.
    pub(super) objection: Option<&'static str>,
    /// Whether deliveries with the same `ordered_by` wait for this one.
    pub(super) is_ordered: bool,
    /// Whether it waits here for its next attempt, and those that wait for it until it is done.
    pub(super) keeps_place: bool,
}

impl Arrival {
    pub(super) fn new(delivery: Delivery, body: Vec<u8>, queue: &Queue) -> Self {
        let to = delivery.reply_to();
        let objection = to.and_then(|to| queue.objection_to(to));
        let expects_reply = to.is_some() && objection.is_none();
        Self {
            envelope: delivery.envelope(body, expects_reply),
            delivery,
            objection,
            is_ordered: false,
            keeps_place: queue.stops(),
        }
    }
}

impl Arrival {
    /// It is ordered by this, if by anything.
    pub(super) fn in_lane(&mut self, lane: Option<&Key>, may_be_overtaken: bool) {
        self.is_ordered = lane.is_some();
        self.keeps_place |= lane.is_some() && !may_be_overtaken;
    }
}

/// How a delivery ended, and what is to be done about it.
#[derive(Debug)]
pub(super) struct DeliveryEnd {
    pub(super) kind: ExecutionKind,
    pub(super) key: Option<Key>,
    pub(super) attempt: Option<u32>,
    /// How it would have ended if its policy, which is to observe, were enforced.
    pub(super) would_have_been: Option<ExecutionKind>,
    pub(super) error: Option<String>,
    pub(super) settlement: Settlement,
    /// What the requester is told, if there is one.
    pub(super) reply: Option<Reply>,
    /// Whether its number was done long ago.
    pub(super) stale_number: bool,
}

impl DeliveryEnd {
    /// It has run with others, at the first attempt, and the mark is behind it.
    pub(super) fn executed(key: Key) -> Self {
        Self {
            key: Some(key),
            attempt: Some(1),
            settlement: Settlement::Ack,
            ..Self::bare(ExecutionKind::Executed)
        }
    }

    /// Nothing ran, and nothing is decided.
    pub(super) fn abandoned() -> Self {
        Self::bare(ExecutionKind::Abandoned)
    }

    /// The worker stopped while the handler was running.
    pub(super) fn interrupted() -> Self {
        Self::bare(ExecutionKind::Interrupted)
    }

    pub(super) fn bare(kind: ExecutionKind) -> Self {
        Self {
            kind,
            key: None,
            attempt: None,
            would_have_been: None,
            error: None,
            settlement: Settlement::Leave,
            reply: None,
            stale_number: false,
        }
    }
}

/// The settlement was not carried out: the broker delivers again.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeftToBroker;
