//! A message that has to be in another queue before its delivery is acknowledged: a dead letter, or
//! a retry.
//!
//! `carry_out` makes an [`Outgoing`] and sends it through the consumer's [`LetterSender`]. What must stay true:
//!
//! - `send` says that it is done only when the broker has confirmed the message.
//! - If it never comes to that, the delivery stays unsettled and nothing is lost.
//! - A broker that refuses is asked again with growing pauses.

use std::time::{Duration, SystemTime};

use idem_core::{ErrorChain, handler::Backoff, settlement::Reason};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    arrival::{Arrival, DeliveryEnd, LeftToBroker},
    channel_context::ChannelContext,
    topology_repair::TopologyRepair,
};
use crate::{
    error::PublishError,
    publisher::Publisher,
    topology::Queue,
    wire::{
        Publication,
        dead_letter::{DeathInfo, dead_letter},
        retry::{FailureInfo, retry},
    },
};

/// A message, and what kind of queue it goes to.
pub(super) struct Outgoing {
    destination: Destination,
    letter: Publication,
}

/// Where it goes, which decides how long it is worth waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    /// The dead-letter queue. If the message has a key, that is given up or completed already: back in its queue, it
    /// would run again, or be taken for a copy.
    DeadLetters,
    /// A delay of the retry ladder. If the message came back to its queue instead, it would only be
    /// held until it is due, because the store knows when that is.
    Ladder,
}

impl Outgoing {
    /// A message to the queue's dead-letter queue, with the error that the delivery ended with.
    pub(super) fn dead_letter(
        arrival: &Arrival,
        end: &DeliveryEnd,
        reason: Reason,
        queue: &Queue,
    ) -> Self {
        let error = end.error.as_deref().unwrap_or_default();
        Self::letter(arrival, end, reason, error, queue)
    }

    /// A message to the queue's dead-letter queue, because its requester could not be told of the refusal.
    pub(super) fn not_told(
        arrival: &Arrival,
        end: &DeliveryEnd,
        reason: Reason,
        error: &str,
        queue: &Queue,
    ) -> Self {
        Self::letter(arrival, end, reason, error, queue)
    }

    /// The message as it came, and headers that say why, where and when it ended.
    fn letter(
        arrival: &Arrival,
        end: &DeliveryEnd,
        reason: Reason,
        error: &str,
        queue: &Queue,
    ) -> Self {
        let death = DeathInfo {
            reason,
            error,
            attempt: end.attempt.unwrap_or_default(),
            key: end.key.as_ref(),
            at: SystemTime::now(),
        };
        let (delivery, body) = (&arrival.delivery, arrival.envelope.body());
        let address = queue.dead_letter_target().address(delivery.routing_key());
        Self {
            destination: Destination::DeadLetters,
            letter: dead_letter(delivery, body, &death, address),
        }
    }

    /// A message to the queue of the retry ladder that returns it after this delay.
    pub(super) fn retry(arrival: &Arrival, end: &DeliveryEnd, rung: Duration) -> Self {
        let failure = FailureInfo {
            attempt: end.attempt,
            error: end.error.as_deref(),
            key: end.key.as_ref(),
        };
        let (delivery, body) = (&arrival.delivery, arrival.envelope.body());
        Self {
            destination: Destination::Ladder,
            letter: retry(delivery, body, &failure, rung, SystemTime::now()),
        }
    }
}

impl Outgoing {
    /// Leaves headers of the publisher's behind, if the message was too large because of them.
    /// `false` if that is not the error, or nothing can be left behind.
    ///
    /// The headers of idem must go along, so others have to make room. Else the message could never
    /// leave, and its delivery would stay here for ever.
    fn shorten(&mut self, error: &PublishError) -> bool {
        let PublishError::TooLarge { bytes, most } = error else {
            return false;
        };
        let excess = bytes.saturating_sub(*most);
        let Some(shorter) = self.letter.with_headers_cut(excess) else {
            return false;
        };
        self.letter = shorter;
        true
    }
}

#[cfg(feature = "testing")]
impl Outgoing {
    /// What is published.
    pub(super) fn into_letter(self) -> Publication {
        self.letter
    }
}

/// The wait between two tries to publish.
const AGAIN: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));

/// Publishes what has to be in another queue: dead letters and retries of one queue. All deliveries
/// of a consumer share it.
pub(super) struct LetterSender {
    queue: Queue,
    publisher: Publisher,
    /// Declares again what somebody has deleted.
    repair: TopologyRepair,
    /// Cancelled when the grace period is over.
    deadline: CancellationToken,
}

impl LetterSender {
    /// A sender for what becomes of this queue's messages.
    pub(super) fn new(queue: Queue, publisher: Publisher, deadline: CancellationToken) -> Self {
        Self {
            repair: TopologyRepair::new(publisher.clone(), queue.clone()),
            queue,
            publisher,
            deadline,
        }
    }

    /// Publishes a message, again and again until the broker has confirmed it.
    ///
    /// `LeftToBroker` if it does not come to that: the channel has ended, or the grace period is over.
    /// The message may have been published all the same; then there are two copies with one key.
    pub(super) async fn send(
        &self,
        outgoing: Outgoing,
        context: &ChannelContext,
    ) -> Result<(), LeftToBroker> {
        tokio::select! {
            sent = self.send_until_confirmed(outgoing, context) => sent,
            // The broker has the delivery back and sends it again; what becomes of it is decided
            // anew.
            () = context.closed.cancelled() => Err(LeftToBroker),
            () = self.deadline.cancelled() => Err(LeftToBroker),
        }
    }

    /// Goes on until the message is confirmed, or until it is better to let it come back.
    async fn send_until_confirmed(
        &self,
        mut outgoing: Outgoing,
        context: &ChannelContext,
    ) -> Result<(), LeftToBroker> {
        let may_come_back = outgoing.destination == Destination::Ladder;
        let mut tries = 0;
        // Held until the end: while it lives, the worker's health says that this queue's messages
        // cannot be published.
        let mut _waits;
        while let Err(error) = self.publisher.publish(&outgoing.letter).await {
            if outgoing.shorten(&error) {
                tracing::warn!(
                    queue = self.queue.name(),
                    error = ErrorChain::of(&error).to_string(),
                    "headers of the message are left behind"
                );
                continue;
            }
            // Only here, not where headers were cut: that helps at once, and ends when none are
            // left.
            tries += 1;
            self.complain(outgoing.destination, &error, tries);
            // One failure may be a connection that is just being replaced.
            if tries > 1 {
                _waits = context
                    .health
                    .unpublished(self.queue.name(), ErrorChain::of(&error).to_string());
            }
            self.repair.mend(&error).await;
            tokio::select! {
                () = sleep(AGAIN.wait(tries)) => {}
                // A retry may come back when the worker stops, and a dead letter may not: its
                // message would run again. It is tried until the grace period is over.
                () = context.draining.cancelled(), if may_come_back => return Err(LeftToBroker),
            }
        }
        Ok(())
    }

    /// Says in the log that a message could not be published. For a dead letter it is an error: a
    /// person waits for it.
    fn complain(&self, destination: Destination, error: &PublishError, tries: u32) {
        let queue = self.queue.name();
        let error = ErrorChain::of(error).to_string();
        match destination {
            Destination::DeadLetters => {
                tracing::error!(
                    queue,
                    tries,
                    error,
                    "the dead letter could not be published; the message is kept and tried again"
                );
            }
            Destination::Ladder => {
                tracing::warn!(
                    queue,
                    tries,
                    error,
                    "the retry ladder did not take the message; it is kept and tried again"
                );
            }
        }
    }
}
