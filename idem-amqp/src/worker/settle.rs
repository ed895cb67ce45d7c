//! Carries a settlement out: verdicts, dead letters, retries, local delays.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use idem_core::ExecutionKind;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    attend::{Arrival, Attend, End},
    balance::Counters,
    desk::{Desk, Seat},
    mender::Mender,
    outgoing::Outgoing,
    replier::Replier,
    replying::Tries,
};
use crate::wire::Settled;
use crate::{
    publisher::Publisher,
    telemetry::{Ending, Meters, spans},
    topology::Queue,
    wire::{reply::ReplyFate, settlement::Settlement},
};

pub(super) type Observer = Arc<dyn Fn(&Settled<'_>) + Send + Sync>;

/// The settlement was not carried out: the broker delivers again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unsettled;

/// What all deliveries of a consumer need.
pub(super) struct Clerk {
    pub(super) queue: Queue,
    pub(super) attendant: Arc<dyn Attend>,
    pub(super) publisher: Publisher,
    /// Apart: a queue of a requester's choice that never confirms must not keep dead letters waiting.
    pub(super) replier: Arc<Replier>,
    pub(super) mender: Mender,
    pub(super) counters: Arc<Counters>,
    pub(super) meters: Arc<Meters>,
    pub(super) observer: Option<Observer>,
    /// Cancelled when the grace period is over: handlers that still run are dropped.
    pub(super) deadline: CancellationToken,
}

impl Clerk {
    /// Sees one delivery through.
    pub(super) async fn serve(&self, tag: u64, arrival: Arrival, desk: &Desk, mut seat: Seat) {
        let arrived = Instant::now();
        let mut end = tokio::select! {
            biased;
            end = self.attendant.attend(&arrival, &self.queue, desk, &mut seat) => end,
            () = self.deadline.cancelled() => End::interrupted(),
        };
        let span = spans::settle(self.queue.name(), end.settlement);
        let settled = if end.settlement == Settlement::Ack && end.reply.is_none() {
            span.in_scope(|| acknowledge(tag, desk).map(|()| None))
        } else {
            // Large, and seldom: the future of a delivery is moved about as a whole.
            let settled = self.settle(tag, &arrival, &mut end, desk, &mut seat);
            Box::pin(settled.instrument(span)).await
        };
        let reply = settled.unwrap_or_else(|Unsettled| {
            end.settlement = Settlement::Leave;
            None
        });
        let reply = reply.or_else(|| self.disallowed(&arrival, end.settlement));
        drop(seat);
        desk.failures.tell(&Ending {
            queue: self.queue.name(),
            key: end.key.as_ref(),
            kind: end.kind,
            attempt: end.attempt,
            error: end.error.as_deref(),
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
        desk: &Desk,
        seat: &mut Seat,
    ) -> Result<Option<ReplyFate>, Unsettled> {
        let mut reply = None;
        if let Settlement::Requeue { after } = end.settlement {
            seat.step_aside(desk);
            tokio::select! {
                () = sleep(after) => desk.verdicts.give_back(tag),
                () = desk.stopping() => return Err(Unsettled),
            }
        } else {
            if let Some(letter) = self.letter(arrival, end)? {
                seat.step_aside(desk);
                self.send(letter, desk).await?;
            }
            if let Some(answer) = &end.reply {
                seat.step_aside(desk);
                let tries = Tries::of(end.settlement);
                reply = self.reply(answer, tries, arrival, desk).await?;
                let untold = reply != Some(ReplyFate::Sent);
                if let Some((reason, error)) = answer.otherwise().filter(|_| untold) {
                    let letter = Outgoing::untold(arrival, end, reason, error, &self.queue);
                    self.send(letter, desk).await?;
                    end.settlement = Settlement::DeadLetter(reason);
                }
            }
            desk.verdicts.ack(tag);
        }
        told(desk)?;
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
        if settled.replay && settled.kind == ExecutionKind::Duplicate {
            tracing::info!(
                queue = settled.queue,
                key = settled.key.map(tracing::field::display),
                "a dead letter was sent again, and its work had been done already: a duplicate"
            );
        }
        let Some(observer) = &self.observer else {
            return;
        };
        if catch_unwind(AssertUnwindSafe(|| observer(settled))).is_err() {
            tracing::error!("the observer of settled messages panicked");
        }
    }
}

fn acknowledge(tag: u64, desk: &Desk) -> Result<(), Unsettled> {
    desk.verdicts.ack(tag);
    told(desk)
}

/// On a channel that has ended a verdict goes nowhere: the broker has the message back.
fn told(desk: &Desk) -> Result<(), Unsettled> {
    if desk.ended.is_cancelled() {
        return Err(Unsettled);
    }
    Ok(())
}
