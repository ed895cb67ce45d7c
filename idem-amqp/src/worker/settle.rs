//! Carries a settlement out: acks, dead letters, retries, local delays.
//!
//! `consumer` hands each delivery to [`DeliveryProcessor::serve`], which runs it and then does what
//! `wire::settlement` has decided. What must stay true: an ack comes last, after whatever has to be
//! in another queue is confirmed there; each delivery is counted once, as it ended; what cannot be
//! settled is left to the broker, which delivers it again.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    arrival::{Arrival, End, Unsettled},
    channel_context::{ChannelContext, Slot},
    circumstances::circumstances,
    handler_runner::RunHandler,
    outgoing::{Outbox, Outgoing},
    replying::{ReplySender, Tries},
    stats::Counters,
};
use crate::wire::Settled;
use crate::{
    telemetry::{Ending, Meters, spans},
    topology::Queue,
    wire::{
        reply::ReplyOutcome,
        settlement::{Asker, Circumstances, Settlement, settle},
    },
};

/// What the user is told about each delivery that has ended.
pub(super) type Observer = Arc<dyn Fn(&Settled<'_>) + Send + Sync>;

/// What all deliveries of a consumer need, over all its channels.
pub(super) struct DeliveryProcessor {
    pub(super) queue: Queue,
    /// Takes a delivery as far as the decision about it.
    pub(super) runner: Arc<dyn RunHandler>,
    /// For dead letters and retries.
    pub(super) outbox: Outbox,
    /// For the answers to requests, on another publisher.
    pub(super) replies: ReplySender,
    pub(super) counters: Arc<Counters>,
    pub(super) meters: Arc<Meters>,
    /// The user's own, if there is one.
    pub(super) observer: Option<Observer>,
    /// Cancelled when the grace period is over: handlers that still run are dropped.
    pub(super) deadline: CancellationToken,
}

impl DeliveryProcessor {
    /// Sees one delivery through: runs it, settles it, frees its slot, and tells how it ended.
    ///
    /// # Cancel safety
    /// Dropped before the ack, the delivery stays unsettled and comes again; a lease that it holds
    /// runs out.
    pub(super) async fn serve(
        &self,
        tag: u64,
        arrival: Arrival,
        context: &ChannelContext,
        mut slot: Slot,
    ) {
        let arrived = Instant::now();
        let mut end = tokio::select! {
            // A handler that has ended in the same moment as the grace period counts as ended.
            biased;
            end = self.runner.run(&arrival, &self.queue, context, &mut slot) => end,
            () = self.deadline.cancelled() => End::interrupted(),
        };
        let span = spans::settle(self.queue.name(), end.settlement);
        // The most frequent end needs nothing but the ack.
        let settled = if end.settlement == Settlement::Ack && end.reply.is_none() {
            span.in_scope(|| acknowledge(tag, context).map(|()| None))
        } else {
            // Boxed: this future is large and seldom needed, and the future of a delivery is moved
            // about as a whole.
            let settled = self.settle(tag, &arrival, &mut end, context, &mut slot);
            Box::pin(settled.instrument(span)).await
        };
        // The decision stands, but nobody knows that the broker has heard of it. It is told as what
        // it is: left to the broker.
        let reply = settled.unwrap_or_else(|Unsettled| {
            end.settlement = Settlement::Leave;
            None
        });
        let reply = reply.or_else(|| self.replies.disallowed(&arrival, end.settlement));
        // Before the log, the counters and the user's function: the next handler does not wait for
        // those.
        drop(slot);
        context.failures.tell(&Ending {
            queue: self.queue.name(),
            key: end.key.as_ref(),
            kind: end.kind,
            attempt: end.attempt,
            error: end.error.as_deref(),
            would_have_been: end.would_have_been,
            replay: arrival.delivery.is_replay(),
            settlement: end.settlement,
        });
        self.counters.ended(end.kind, &self.meters);
        if let Some(kind) = end.would_have_been {
            self.counters.would_have_been(kind, &self.meters);
        }
        if end.stale_number {
            self.counters.stale_number(&self.meters);
        }
        self.observe(&Settled {
            queue: self.queue.name(),
            key: end.key.as_ref(),
            kind: end.kind,
            would_have_been: end.would_have_been,
            attempt: end.attempt,
            error: end.error.as_deref(),
            settlement: end.settlement,
            redelivered: arrival.delivery.is_redelivered(),
            replay: arrival.delivery.is_replay(),
            reply,
            elapsed: arrived.elapsed(),
        });
    }

    /// Counts a delivery that came while the worker was stopping. Nothing ran; the broker has it
    /// back when the channel ends.
    pub(super) fn abandon(&self, arrival: &Arrival) {
        let end = End::abandoned();
        self.counters.ended(end.kind, &self.meters);
        self.observe(&Settled {
            queue: self.queue.name(),
            key: None,
            kind: end.kind,
            would_have_been: None,
            attempt: None,
            error: None,
            settlement: end.settlement,
            redelivered: arrival.delivery.is_redelivered(),
            replay: arrival.delivery.is_replay(),
            reply: None,
            elapsed: Duration::ZERO,
        });
    }

    /// Carries the settlement out, up to the ack. `Unsettled` if the delivery is left to the
    /// broker.
    ///
    /// Dead letter and reply may change what `end` says: a reply that reached nobody can make a
    /// dead letter of its request.
    async fn settle(
        &self,
        tag: u64,
        arrival: &Arrival,
        end: &mut End,
        context: &ChannelContext,
        slot: &mut Slot,
    ) -> Result<Option<ReplyOutcome>, Unsettled> {
        let mut reply = None;
        if let Settlement::Requeue { after } = end.settlement {
            // While it waits it needs no slot to run. If there is none to wait, it keeps the one
            // that it has, so that no more wait than may.
            slot.start_waiting(context);
            tokio::select! {
                // After the delay, or the message would be here again at once: a hot loop.
                () = sleep(after) => context.acks.give_back(tag),
                // Not given back here: with the channel's end it is back in its queue anyway.
                () = context.stopping() => return Err(Unsettled),
            }
        } else {
            // The order keeps the message: first it is confirmed in the other queue, then it is
            // acknowledged here. A crash in between leaves two copies with one key, which is
            // harmless.
            if let Some(letter) = self.letter(arrival, end)? {
                slot.start_waiting(context);
                self.outbox.send(letter, context).await?;
            }
            // Likewise: a request that was acknowledged before its reply is sent would never be
            // answered if the worker died in between.
            if let Some(answer) = &end.reply {
                slot.start_waiting(context);
                let tries = Tries::of(end.settlement);
                reply = self.replies.send(answer, tries, arrival, context).await?;
                // Some refusals must reach somebody: settled once more, as what nobody was told of.
                let untold = reply != Some(ReplyOutcome::Sent);
                if let Some(error) = answer.unheard().filter(|_| untold) {
                    let now = Circumstances {
                        asker: Asker::Untold,
                        ..circumstances(arrival, &self.queue, context)
                    };
                    let settlement = settle(end.kind, &now);
                    if let Settlement::DeadLetter(reason) = settlement {
                        let letter = Outgoing::untold(arrival, end, reason, error, &self.queue);
                        self.outbox.send(letter, context).await?;
                        end.settlement = settlement;
                    }
                }
            }
            context.acks.ack(tag);
        }
        told(context)?;
        Ok(reply)
    }

    /// What has to be in another queue before the ack; `Unsettled` if nothing is decided.
    fn letter(&self, arrival: &Arrival, end: &End) -> Result<Option<Outgoing>, Unsettled> {
        Ok(match end.settlement {
            Settlement::DeadLetter(reason) => {
                Some(Outgoing::dead_letter(arrival, end, reason, &self.queue))
            }
            Settlement::Retry { after } => Some(Outgoing::retry(arrival, end, after)),
            Settlement::Hold { .. } | Settlement::Leave => return Err(Unsettled),
            Settlement::Ack | Settlement::Requeue { .. } => None,
        })
    }

    /// Tells metrics, spans, log and the user how a delivery ended.
    fn observe(&self, settled: &Settled<'_>) {
        self.meters.settled(settled);
        spans::ended(settled);
        tracing::debug!(
            queue = settled.queue,
            key = settled.key.map(tracing::field::display),
            kind = %settled.kind,
            would_have_been = settled.would_have_been.map(tracing::field::display),
            attempt = settled.attempt,
            error = settled.error,
            settlement = ?settled.settlement,
            replay = settled.replay,
            "settled"
        );
        let Some(observer) = &self.observer else {
            return;
        };
        // The delivery has ended and is settled; a panic in the user's function must change nothing
        // about that.
        if catch_unwind(AssertUnwindSafe(|| observer(settled))).is_err() {
            tracing::error!("the observer of settled messages panicked");
        }
    }
}

/// Acknowledges a delivery that needs nothing else.
fn acknowledge(tag: u64, context: &ChannelContext) -> Result<(), Unsettled> {
    context.acks.ack(tag);
    told(context)
}

/// Whether the broker can have heard of the ack. On a channel that has ended it goes nowhere: the
/// broker has the message back, and a copy of it comes.
fn told(context: &ChannelContext) -> Result<(), Unsettled> {
    if context.ended.is_cancelled() {
        return Err(Unsettled);
    }
    Ok(())
}
