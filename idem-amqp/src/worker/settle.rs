//! Carries a settlement out: verdicts, dead letters, retries, local delays.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use idem_core::ExecutionKind;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    attend::{Arrival, Attend, End},
    balance::Counters,
    desk::{Desk, Seat},
    mender::Mender,
    outgoing::Outgoing,
    settled::Settled,
};
use crate::{Queue, publisher::Publisher, settlement::Settlement};

pub(super) type Observer = Arc<dyn Fn(&Settled<'_>) + Send + Sync>;

/// What all deliveries of a consumer need.
pub(super) struct Clerk {
    pub(super) queue: Queue,
    pub(super) attendant: Arc<dyn Attend>,
    pub(super) publisher: Publisher,
    pub(super) mender: Mender,
    pub(super) counters: Arc<Counters>,
    pub(super) observer: Option<Observer>,
    /// Cancelled when the grace period is over: handlers that still run are dropped.
    pub(super) deadline: CancellationToken,
}

impl Clerk {
    /// Sees one delivery through.
    pub(super) async fn serve(&self, tag: u64, arrival: Arrival, desk: &Desk) {
        let arrived = Instant::now();
        let mut seat = Seat::default();
        let mut end = tokio::select! {
            biased;
            end = self.attendant.attend(&arrival, &self.queue, desk, &mut seat) => end,
            () = self.deadline.cancelled() => End::interrupted(),
        };
        if !self.settle(tag, &arrival, &end, desk, &mut seat).await {
            end.settlement = Settlement::Leave;
        }
        drop(seat);
        self.counters.ended(end.kind);
        self.observe(&Settled {
            queue: self.queue.name(),
            key: end.key.as_ref(),
            kind: end.kind,
            attempt: end.attempt,
            error: end.error.as_deref(),
            settlement: end.settlement,
            redelivered: arrival.delivery.is_redelivered(),
            replay: arrival.delivery.is_replay(),
            elapsed: arrived.elapsed(),
        });
    }

    /// A delivery that came while the worker was stopping.
    pub(super) fn abandon(&self, arrival: &Arrival) {
        let end = End::abandoned();
        self.counters.ended(end.kind);
        self.observe(&Settled {
            queue: self.queue.name(),
            key: None,
            kind: end.kind,
            attempt: None,
            error: None,
            settlement: end.settlement,
            redelivered: arrival.delivery.is_redelivered(),
            replay: arrival.delivery.is_replay(),
            elapsed: Duration::ZERO,
        });
    }

    /// Whether the settlement was carried out; if not, the broker delivers again.
    async fn settle(
        &self,
        tag: u64,
        arrival: &Arrival,
        end: &End,
        desk: &Desk,
        seat: &mut Seat,
    ) -> bool {
        match end.settlement {
            Settlement::Ack => desk.verdicts.ack(tag),
            Settlement::DeadLetter(reason) => {
                seat.step_aside(desk);
                let letter = Outgoing::dead_letter(arrival, end, reason, &self.queue);
                if !self.send(&letter, desk).await {
                    return false;
                }
                desk.verdicts.ack(tag);
            }
            Settlement::Retry { after } => {
                seat.step_aside(desk);
                let letter = Outgoing::retry(arrival, end, after);
                if !self.send(&letter, desk).await {
                    return false;
                }
                desk.verdicts.ack(tag);
            }
            Settlement::Requeue { after } => {
                seat.step_aside(desk);
                tokio::select! {
                    () = sleep(after) => desk.verdicts.give_back(tag),
                    () = desk.stopping() => return false,
                }
            }
            Settlement::Hold { .. } | Settlement::Leave => return false,
        }
        // On a channel that has ended a verdict goes nowhere: the broker has the message back.
        !desk.ended.is_cancelled()
    }

    fn observe(&self, settled: &Settled<'_>) {
        tracing::debug!(
            queue = settled.queue,
            key = settled.key.map(tracing::field::display),
            kind = %settled.kind,
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
