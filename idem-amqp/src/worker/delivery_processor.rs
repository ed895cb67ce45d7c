//! A delivery from its arrival to the end of its settlement, and how it is counted and told.
//!
//! `consumer` hands each delivery to [`DeliveryProcessor::serve`], which runs it and has its settlement carried out
//! (`carry_out`). What must stay true:
//!
//! - Each delivery is counted once, as it ended.
//! - Its slot is free before anybody is told.
//! - A panic in the user's observer changes nothing.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use idem_core::{
    Policy,
    settlement::{Reason, Settlement},
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    arrival::{Arrival, DeliveryEnd, LeftToBroker},
    channel_context::{ChannelContext, Slot},
    handler_runner::RunHandler,
    lanes::LanePlace,
    outgoing::LetterSender,
    replying::ReplySender,
    stats::Counters,
};
use crate::{
    telemetry::{AttemptEnd, Meters, spans},
    topology::Queue,
    wire::{Settled, reply::ReplyOutcome},
};

mod carry_out;

use carry_out::ack_if_open;

/// What the user is told about each delivery that has ended.
pub(super) type Observer = Arc<dyn Fn(&Settled<'_>) + Send + Sync>;

/// What all deliveries of a consumer need, over all its channels.
pub(super) struct DeliveryProcessor {
    pub(super) queue: Queue,
    /// The queue's, or else its handler's.
    pub(super) policy: Policy,
    /// Takes a delivery as far as the decision about it.
    pub(super) runner: Arc<dyn RunHandler>,
    /// Sends dead letters and retries.
    pub(super) letters: LetterSender,
    /// Sends the answers to requests, by another publisher.
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
        mut place: Option<LanePlace>,
    ) {
        let arrived = Instant::now();
        tokio::select! {
            biased;
            () = slot.until_may_start(context) => {}
            () = context.stopping() => {}
        }
        if let Some(place) = &mut place
            && !place.is_first()
        {
            // Those before it, and those of other lanes, may need its slot.
            drop(slot);
            tokio::select! {
                () = place.until_first() => {}
                () = context.stopping() => {}
            }
            slot = Slot::at_the_end(context, tag);
        }
        let mut end = self.run(tag, &arrival, context, &mut slot).await;
        if let Settlement::Retry { .. } | Settlement::Requeue { .. } = end.settlement {
            // It may be overtaken: those behind it do not wait until it is back in its queue.
            place = None;
        }
        let waits = matches!(end.settlement, Settlement::Requeue { .. });
        if waits {
            self.log_failure(&arrival, &end, context);
        }
        let span = spans::settle(self.queue.name(), end.settlement);
        // The most frequent end needs nothing but the ack.
        let replied = if end.settlement == Settlement::Ack && end.reply.is_none() {
            span.in_scope(|| ack_if_open(tag, context).map(|()| None))
        } else {
            // Boxed: this future is large and seldom needed, and the future of a delivery is moved
            // about as a whole.
            let carried_out = self.carry_out(tag, &arrival, &mut end, context, &mut slot);
            Box::pin(carried_out.instrument(span)).await
        };
        // The channel has ended, so the broker has the delivery back: it is told as left to the broker.
        let reply = replied.unwrap_or_else(|LeftToBroker| {
            end.settlement = Settlement::Leave;
            None
        });
        let reply = reply.or_else(|| self.replies.disallowed(&arrival, end.settlement));
        // Before the log, the counters and the user's function: the next handler does not wait for
        // those.
        drop((slot, place));
        if !waits {
            self.log_failure(&arrival, &end, context);
        }
        self.tell(&arrival, &end, reply, arrived);
    }

    /// Runs a delivery as far as its settlement. One at which its stream stops is tried again until it is handled, or
    /// the channel ends.
    async fn run(
        &self,
        tag: u64,
        arrival: &Arrival,
        context: &ChannelContext,
        slot: &mut Slot,
    ) -> DeliveryEnd {
        loop {
            let end = tokio::select! {
                // A handler that has ended in the same moment as the grace period counts as ended.
                biased;
                end = self.runner.run(arrival, &self.queue, context, slot) => end,
                () = self.deadline.cancelled() => DeliveryEnd::interrupted(),
            };
            let (Some(reading), Settlement::Stop { reason, recheck }) =
                (&context.reading, end.settlement)
            else {
                return end;
            };
            if reading.stops.stop_at(tag) {
                self.report_stop(arrival, reason, &end);
            } else {
                // The cause may be another one by now.
                self.log_failure(arrival, &end, context);
            }
            slot.stop_running();
            tokio::select! {
                () = sleep(recheck) => {}
                () = context.stopping() => return end,
            }
        }
    }

    fn report_stop(&self, arrival: &Arrival, reason: Reason, end: &DeliveryEnd) {
        tracing::error!(
            queue = self.queue.name(),
            offset = arrival.delivery.offset_in_stream(),
            key = end.key.as_ref().map(tracing::field::display),
            reason = reason.as_str(),
            error = end.error,
            "the stream stops at a message that cannot be handled; it is tried again each minute. Mend what hinders it. \
             If it is never to be handled, set the mark behind it once all before it is done (`idem marks set`)"
        );
    }

    /// Counts a delivery that has ended without [`serve`](Self::serve), and tells of it.
    pub(super) fn end(
        &self,
        arrival: &Arrival,
        end: &DeliveryEnd,
        context: &ChannelContext,
        arrived: Instant,
    ) {
        self.log_failure(arrival, end, context);
        self.tell(arrival, end, None, arrived);
    }

    /// Says in the log why the delivery failed, if it did: before it waits to go back to its queue, for that can take
    /// minutes.
    fn log_failure(&self, arrival: &Arrival, end: &DeliveryEnd, context: &ChannelContext) {
        context.failures.tell(&AttemptEnd {
            queue: self.queue.name(),
            key: end.key.as_ref(),
            kind: end.kind,
            attempt: end.attempt,
            error: end.error.as_deref(),
            would_have_been: end.would_have_been,
            replay: arrival.delivery.is_replay(),
            settlement: end.settlement,
        });
    }

    /// Counts the delivery, and tells the user's function how it ended.
    fn tell(
        &self,
        arrival: &Arrival,
        end: &DeliveryEnd,
        reply: Option<ReplyOutcome>,
        arrived: Instant,
    ) {
        self.counters.ended(end.kind, &self.meters);
        if let Some(kind) = end.would_have_been {
            self.counters.would_have_been(kind, &self.meters);
        }
        if let Settlement::Drop(_) = end.settlement {
            self.counters.dropped();
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
        let end = DeliveryEnd::abandoned();
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
