//! A reply that has to be with the broker before its request is acknowledged.

use std::{sync::Arc, time::Duration};

use idem_core::{
    ErrorChain, Execution, Failure,
    handler::{Backoff, Operation, Refusal},
    settlement::Settlement,
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    arrival::{Arrival, LeftToBroker},
    channel_context::ChannelContext,
    replier::{Replier, Untaken, is_crash},
    stats::Counters,
};
use crate::{
    error::PublishError,
    publisher::Batching,
    topology::Queue,
    wire::{
        Publication,
        reply::{Address, Reply, ReplyOutcome},
    },
};

/// What the requester is told about a message that ended like this; nothing while it will be tried
/// again.
pub(super) fn reply<H: Operation>(
    execution: &Execution<H::Output, H::Error>,
    settlement: Settlement,
) -> Option<Reply> {
    match (execution, settlement) {
        (
            Execution::Executed { outcome, .. }
            | Execution::Unprotected { outcome, .. }
            | Execution::Observed { outcome, .. }
            | Execution::Unclaimed { outcome, .. },
            _,
        ) => Some(Reply::new(outcome)),
        (Execution::Refused { refusal, .. }, _) => Some(Reply::rejection(refusal)),
        (Execution::Duplicate { outcome, .. }, _) => Some(Reply::recalled::<H>(outcome)),
        (ended, Settlement::DeadLetter(reason) | Settlement::Drop(reason)) => {
            Some(Reply::refusal(&refusal(reason.as_str(), ended)))
        }
        (ended @ Execution::Stale, _) => Some(Reply::refusal(&refusal(Refusal::STALE, ended))),
        (ended @ Execution::SessionExpired, _) => Some(Reply::to_be_heard(&refusal(
            Refusal::SESSION_EXPIRED,
            ended,
        ))),
        (ended @ Execution::BeyondWindow { .. }, _) => {
            Some(Reply::to_be_heard(&refusal(Refusal::BEYOND_WINDOW, ended)))
        }
        _ => None,
    }
}

/// It is not remembered: the same request may be sent again.
fn refusal<T, E: Failure>(code: &'static str, ended: &Execution<T, E>) -> Refusal {
    Refusal::new(code, ended.error().unwrap_or_default())
}

const AGAIN: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));

/// How often a broker that is there is asked to take a reply.
const REFUSALS: u32 = 5;
/// How often a reply may go unconfirmed: links break, and so do channels, by others' doing.
const UNCONFIRMED: u32 = 10;

/// How long a refusal is worth waiting for that is not remembered: meanwhile the key is free, and a
/// message that came back would run again.
const AT_MOST: Duration = Duration::from_secs(5);

/// How much is done for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyEffort {
    /// It is remembered: what matters is that it is sent.
    Many,
    /// The message is dead-lettered already, or is to be dropped: what matters is its ack.
    One,
}

impl ReplyEffort {
    pub(super) fn of(settlement: Settlement) -> Self {
        match settlement {
            Settlement::DeadLetter(_) | Settlement::Drop(_) => Self::One,
            _ => Self::Many,
        }
    }
}

/// Publishes the replies to the messages of one queue.
pub(super) struct ReplySender {
    queue: Queue,
    /// Apart: a queue of a requester's choice that never confirms must not keep dead letters waiting.
    replier: Arc<Replier>,
    counters: Arc<Counters>,
    /// Cancelled when the grace period is over.
    deadline: CancellationToken,
}

impl ReplySender {
    pub(super) fn new(
        queue: Queue,
        replier: Arc<Replier>,
        counters: Arc<Counters>,
        deadline: CancellationToken,
    ) -> Self {
        Self {
            queue,
            replier,
            counters,
            deadline,
        }
    }

    /// Publishes the reply until it has an outcome. If it does not come to that, the delivery is left
    /// unsettled: when it comes again, it is answered from memory.
    pub(super) async fn send(
        &self,
        reply: &Reply,
        tries: ReplyEffort,
        arrival: &Arrival,
        context: &ChannelContext,
    ) -> Result<Option<ReplyOutcome>, LeftToBroker> {
        let Some(to) = arrival.delivery.reply_to() else {
            return Ok(None);
        };
        let (publication, address) = (reply.publication(to, &arrival.delivery), Address::read(to));
        let published = async {
            match tries {
                ReplyEffort::Many => self.publish_reply(&publication, &address, context).await,
                ReplyEffort::One => {
                    let publishing = self
                        .replier
                        .publish(&publication, &address, Batching::Shared);
                    let published = timeout(AT_MOST, publishing).await;
                    let outcome = published.map(|published| outcome_of(&published));
                    outcome.ok().flatten().unwrap_or(ReplyOutcome::Lost)
                }
            }
        };
        let outcome = tokio::select! {
            outcome = published => outcome,
            () = context.closed.cancelled() => return Err(LeftToBroker),
            () = self.deadline.cancelled() => return Err(LeftToBroker),
        };
        tracing::debug!(
            queue = self.queue.name(),
            reply_to = to,
            ?outcome,
            "replied"
        );
        self.counters.replies.count(reply, outcome);
        Ok(Some(outcome))
    }

    /// What became of the reply that a message asked for which is handled as one that asks for none.
    pub(super) fn disallowed(
        &self,
        arrival: &Arrival,
        settlement: Settlement,
    ) -> Option<ReplyOutcome> {
        let objection = arrival.objection?;
        if !matches!(
            settlement,
            Settlement::Ack | Settlement::DeadLetter(_) | Settlement::Drop(_)
        ) {
            return None;
        }
        tracing::warn!(
            queue = self.queue.name(),
            reply_to = arrival.delivery.reply_to(),
            "a message is not replied to: {objection}"
        );
        self.counters.replies.disallow();
        Some(ReplyOutcome::Disallowed)
    }

    async fn publish_reply(
        &self,
        reply: &Publication,
        to: &Address,
        context: &ChannelContext,
    ) -> ReplyOutcome {
        let (mut tries, mut away, mut refusals, mut unconfirmed) = (0, 0, 0, 0);
        let mut batching = Batching::Shared;
        let mut _waits;
        loop {
            let published = self.replier.publish(reply, to, batching).await;
            if let Some(outcome) = outcome_of(&published) {
                return outcome;
            }
            let Err(Untaken::Yet(error)) = published else {
                let queue = self.queue.name();
                tracing::error!(
                    queue,
                    "the reply is given up, because by such an address the broker closes the connection; \
                     its requester has to ask again"
                );
                return ReplyOutcome::Lost;
            };
            // The others that it was published with are not to suffer from it a second time.
            if is_crash(&error) {
                batching = Batching::Alone;
            }
            tries += 1;
            // A broker that is away is no reason to give up.
            match error {
                PublishError::Broker(_) => away += 1,
                PublishError::Unconfirmed(_) => unconfirmed += 1,
                _ => refusals += 1,
            }
            let queue = self.queue.name();
            let error = ErrorChain::of(&error).to_string();
            if away > 1 {
                _waits = context.health.unpublished(queue, error.clone());
            }
            if refusals >= REFUSALS || unconfirmed >= UNCONFIRMED {
                tracing::error!(
                    queue,
                    error,
                    "the reply could not be published; its requester has to ask again"
                );
                return ReplyOutcome::Lost;
            }
            tracing::warn!(
                queue,
                tries,
                error,
                "the reply was not taken; it is tried again"
            );
            sleep(AGAIN.wait(tries)).await;
        }
    }
}

/// What became of a reply, if that is decided.
fn outcome_of(published: &Result<(), Untaken>) -> Option<ReplyOutcome> {
    match published {
        Ok(()) => Some(ReplyOutcome::Sent),
        Err(Untaken::Yet(PublishError::Unroutable { .. })) => Some(ReplyOutcome::RequesterGone),
        Err(_) => None,
    }
}
