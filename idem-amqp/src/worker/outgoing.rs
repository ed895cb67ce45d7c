//! A message that has to be in another queue before its delivery is acknowledged.

use std::time::{Duration, SystemTime};

use idem_core::{Backoff, ErrorChain};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    arrival::{Arrival, End, Unsettled},
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
        settlement::Reason,
    },
};

/// A message, and where it goes.
pub(super) struct Outgoing {
    destination: Destination,
    letter: Publication,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    /// Its key is given up: if it came back instead, it would run again.
    DeadLetters,
    /// If it came back instead, it would only be held until it is due.
    Ladder,
}

impl Outgoing {
    /// To the queue's dead-letter queue.
    pub(super) fn dead_letter(arrival: &Arrival, end: &End, reason: Reason, queue: &Queue) -> Self {
        let error = end.error.as_deref().unwrap_or_default();
        Self::letter(arrival, end, reason, error, queue)
    }

    /// To the queue's dead-letter queue, because its requester could not be told.
    pub(super) fn untold(
        arrival: &Arrival,
        end: &End,
        reason: Reason,
        error: &str,
        queue: &Queue,
    ) -> Self {
        Self::letter(arrival, end, reason, error, queue)
    }

    fn letter(arrival: &Arrival, end: &End, reason: Reason, error: &str, queue: &Queue) -> Self {
        let death = DeathInfo {
            reason,
            error,
            attempt: end.attempt.unwrap_or_default(),
            key: end.key.as_ref(),
            at: SystemTime::now(),
        };
        let (delivery, body) = (&arrival.delivery, arrival.envelope.body());
        Self {
            destination: Destination::DeadLetters,
            letter: dead_letter(delivery, body, &death, queue.dead_letter_queue()),
        }
    }

    /// To the rung of the retry ladder that has this delay.
    pub(super) fn retry(arrival: &Arrival, end: &End, rung: Duration) -> Self {
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
    /// Leaves headers of the publisher's behind, if it was too large because of them.
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

const AGAIN: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));

/// Publishes what has to be in another queue: dead letters and retries of one queue.
pub(super) struct Outbox {
    queue: Queue,
    publisher: Publisher,
    repair: TopologyRepair,
    /// Cancelled when the grace period is over.
    deadline: CancellationToken,
}

impl Outbox {
    pub(super) fn new(queue: Queue, publisher: Publisher, deadline: CancellationToken) -> Self {
        Self {
            repair: TopologyRepair::new(publisher.clone(), queue.clone()),
            queue,
            publisher,
            deadline,
        }
    }

    /// Publishes it, again and again until the broker has confirmed it. If it does not come to
    /// that, the delivery is to be left unsettled.
    pub(super) async fn send(
        &self,
        outgoing: Outgoing,
        context: &ChannelContext,
    ) -> Result<(), Unsettled> {
        tokio::select! {
            sent = self.send_until_confirmed(outgoing, context) => sent,
            () = context.ended.cancelled() => Err(Unsettled),
            () = self.deadline.cancelled() => Err(Unsettled),
        }
    }

    async fn send_until_confirmed(
        &self,
        mut outgoing: Outgoing,
        context: &ChannelContext,
    ) -> Result<(), Unsettled> {
        let may_come_back = outgoing.destination == Destination::Ladder;
        let mut tries = 0;
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
            tries += 1;
            self.complain(outgoing.destination, &error, tries);
            if tries > 1 {
                _waits = context
                    .health
                    .unpublished(self.queue.name(), ErrorChain::of(&error).to_string());
            }
            self.repair.mend(&error).await;
            tokio::select! {
                () = sleep(AGAIN.wait(tries)) => {}
                () = context.draining.cancelled(), if may_come_back => return Err(Unsettled),
            }
        }
        Ok(())
    }

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
