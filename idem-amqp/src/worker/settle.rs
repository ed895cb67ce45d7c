//! Carries a settlement out: acks, dead letters, retries, local delays.

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
    balance::Counters,
    channel_context::{ChannelContext, Slot},
    handler_runner::RunHandler,
    outgoing::{Outbox, Outgoing},
    replying::{ReplySender, Tries},
};
use crate::wire::Settled;
use crate::{
    telemetry::{Ending, Meters, spans},
    topology::Queue,
    wire::{reply::ReplyFate, settlement::Settlement},
};

pub(super) type Observer = Arc<dyn Fn(&Settled<'_>) + Send + Sync>;

/// What all deliveries of a consumer need.
pub(super) struct DeliveryProcessor {
    pub(super) queue: Queue,
    pub(super) runner: Arc<dyn RunHandler>,
    pub(super) outbox: Outbox,
    pub(super) replies: ReplySender,
    pub(super) counters: Arc<Counters>,
    pub(super) meters: Arc<Meters>,
    pub(super) observer: Option<Observer>,
    /// Cancelled when the grace period is over: handlers that still run are dropped.
    pub(super) deadline: CancellationToken,
}

impl DeliveryProcessor {
    /// Sees one delivery through.
    pub(super) async fn serve(
        &self,
        tag: u64,
        arrival: Arrival,
        context: &ChannelContext,
        mut slot: Slot,
    ) {
        let arrived = Instant::now();
        let mut end = tokio::select! {
            biased;
            end = self.runner.run(&arrival, &self.queue, context, &mut slot) => end,
            () = self.deadline.cancelled() => End::interrupted(),
        };
        let span = spans::settle(self.queue.name(), end.settlement);
        let settled = if end.settlement == Settlement::Ack && end.reply.is_none() {
            span.in_scope(|| acknowledge(tag, context).map(|()| None))
        } else {
            // Large, and seldom: the future of a delivery is moved about as a whole.
            let settled = self.settle(tag, &arrival, &mut end, context, &mut slot);
            Box::pin(settled.instrument(span)).await
        };
        let reply = settled.unwrap_or_else(|Unsettled| {
            end.settlement = Settlement::Leave;
            None
        });
        let reply = reply.or_else(|| self.replies.disallowed(&arrival, end.settlement));
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

    /// A delivery that came while the worker was stopping.
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

    /// Carries the settlement out.
    async fn settle(
        &self,
        tag: u64,
        arrival: &Arrival,
        end: &mut End,
        context: &ChannelContext,
        slot: &mut Slot,
    ) -> Result<Option<ReplyFate>, Unsettled> {
        let mut reply = None;
        if let Settlement::Requeue { after } = end.settlement {
            slot.start_waiting(context);
            tokio::select! {
                () = sleep(after) => context.acks.give_back(tag),
                () = context.stopping() => return Err(Unsettled),
            }
        } else {
            if let Some(letter) = self.letter(arrival, end)? {
                slot.start_waiting(context);
                self.outbox.send(letter, context).await?;
            }
            if let Some(answer) = &end.reply {
                slot.start_waiting(context);
                let tries = Tries::of(end.settlement);
                reply = self.replies.send(answer, tries, arrival, context).await?;
                let untold = reply != Some(ReplyFate::Sent);
                if let Some((reason, error)) = answer.otherwise().filter(|_| untold) {
                    let letter = Outgoing::untold(arrival, end, reason, error, &self.queue);
                    self.outbox.send(letter, context).await?;
                    end.settlement = Settlement::DeadLetter(reason);
                }
            }
            context.acks.ack(tag);
        }
        told(context)?;
        Ok(reply)
    }

    /// What has to be in another queue before the ack.
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
        if catch_unwind(AssertUnwindSafe(|| observer(settled))).is_err() {
            tracing::error!("the observer of settled messages panicked");
        }
    }
}

fn acknowledge(tag: u64, context: &ChannelContext) -> Result<(), Unsettled> {
    context.acks.ack(tag);
    told(context)
}

/// On a channel that has ended an ack goes nowhere: the broker has the message back.
fn told(context: &ChannelContext) -> Result<(), Unsettled> {
    if context.ended.is_cancelled() {
        return Err(Unsettled);
    }
    Ok(())
}
