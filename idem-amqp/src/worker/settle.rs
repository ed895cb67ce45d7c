//! Carries a settlement out: verdicts, dead letters, local delays.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use idem_core::Backoff;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    attend::{Arrival, Attend, End},
    balance::Counters,
    desk::{Desk, Seat},
    settled::Settled,
};
use crate::{
    Queue,
    dead_letter::{Epitaph, dead_letter},
    error::PublishError,
    publisher::Publisher,
    settlement::{Reason, Settlement},
};

pub(super) type Observer = Arc<dyn Fn(&Settled<'_>) + Send + Sync>;

/// What all deliveries of a consumer need.
pub(super) struct Clerk {
    pub(super) queue: Queue,
    pub(super) attendant: Arc<dyn Attend>,
    pub(super) publisher: Publisher,
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
            end = self.attendant.attend(&arrival, desk, &mut seat) => end,
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
                if !self.bury(arrival, end, reason, desk).await {
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

    /// Publishes the dead letter, again and again until the broker has confirmed it.
    async fn bury(&self, arrival: &Arrival, end: &End, reason: Reason, desk: &Desk) -> bool {
        const AGAIN: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
        let epitaph = Epitaph {
            reason,
            error: end.error.as_deref().unwrap_or_default(),
            attempt: end.attempt.unwrap_or_default(),
            key: end.key.as_ref(),
        };
        let target = self.queue.dead_letter_queue();
        let letter = dead_letter(&arrival.delivery, arrival.envelope.body(), &epitaph, target);
        let mut tries = 0;
        let published = async {
            while let Err(error) = self.publisher.publish(&letter).await {
                tries += 1;
                self.complain(&error, tries);
                self.declare_again(&error).await;
                sleep(AGAIN.wait(tries)).await;
            }
        };
        tokio::select! {
            () = published => true,
            () = desk.ended.cancelled() => false,
            () = self.deadline.cancelled() => false,
        }
    }

    /// Somebody deleted the dead-letter queue of a queue that is the worker's to declare.
    async fn declare_again(&self, error: &PublishError) {
        let gone = matches!(error, PublishError::Unroutable { .. });
        if gone
            && self.queue.declared().is_some()
            && let Err(error) = self.publisher.declare(self.queue.clone()).await
        {
            tracing::warn!(%error, "the dead-letter queue could not be declared again");
        }
    }

    fn complain(&self, error: &PublishError, tries: u32) {
        let queue = self.queue.dead_letter_queue();
        tracing::error!(queue, tries, %error, "the dead letter could not be published; the message is kept and tried again");
    }

    fn observe(&self, settled: &Settled<'_>) {
        tracing::debug!(
            queue = settled.queue,
            key = settled.key.map(tracing::field::display),
            kind = %settled.kind,
            attempt = settled.attempt,
            error = settled.error,
            settlement = ?settled.settlement,
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
