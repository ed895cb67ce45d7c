//! What is measured of one queue and its handler.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use idem_core::__telemetry::{Counter, Gauge, Histogram, Label, Metric};
use idem_core::executor::ExecutionKind;
use idem_core::settlement::{Reason, Settlement};

use crate::wire::{Settled, reply::ReplyOutcome};

const DELIVERIES: Metric = Metric {
    name: "idem_deliveries_total",
    help: "Messages that the broker delivered.",
};
const OUTCOMES: Metric = Metric {
    name: "idem_outcomes_total",
    help: "How deliveries ended: each in exactly one outcome.",
};
const REDELIVERIES: Metric = Metric {
    name: "idem_redeliveries_total",
    help: "Ended deliveries that the broker had delivered before.",
};
const REPLAYS: Metric = Metric {
    name: "idem_replays_total",
    help: "Ended deliveries of dead letters that a person sent again.",
};
const SECONDS: Metric = Metric {
    name: "idem_delivery_seconds",
    help: "From a delivery to its settlement: waiting, holding and running.",
};
const SETTLEMENTS: Metric = Metric {
    name: "idem_settlements_total",
    help: "What the broker was told of deliveries.",
};
const DEAD_LETTERS: Metric = Metric {
    name: "idem_dead_letters_total",
    help: "Deliveries whose message went to the dead-letter queue.",
};
const REPLIES: Metric = Metric {
    name: "idem_replies_total",
    help: "Replies to messages that asked for one.",
};
const STALE_NUMBERS: Metric = Metric {
    name: "idem_stale_numbers_total",
    help: "Duplicates that came for the first time, long after their number was done.",
};
const WOULD_HAVE_BEEN: Metric = Metric {
    name: "idem_would_have_been_total",
    help: "What deliveries of handlers that are only observed would have been, and were not.",
};
const IN_FLIGHT: Metric = Metric {
    name: "idem_in_flight",
    help: "Deliveries that have not ended.",
};
const RUNNING: Metric = Metric {
    name: "idem_running",
    help: "Deliveries at work: of those in flight, the ones that have a place among the running.",
};
const HELD: Metric = Metric {
    name: "idem_held",
    help: "Deliveries held back: of those in flight, the ones that wait for another worker, a retry or the store.",
};

/// One queue's handles.
#[derive(Debug)]
pub(crate) struct Meters {
    /// How many deliveries have not ended.
    open: AtomicUsize,
    deliveries: Counter,
    outcomes: [Counter; ExecutionKind::ALL.len()],
    redeliveries: Counter,
    replays: Counter,
    seconds: Histogram,
    settlements: [Counter; SETTLED.len()],
    dead_letters: [Counter; Reason::ALL.len()],
    replies: [Counter; REPLY_OUTCOMES.len()],
    stale_numbers: Counter,
    would_have_been: [Counter; ExecutionKind::ALL.len()],
    in_flight: Gauge,
    running: Gauge,
    held: Gauge,
}

/// How many slots of a consumer are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotCounts {
    pub(crate) running: usize,
    pub(crate) waiting: usize,
}

pub(super) const SETTLED: [&str; 6] = ["ack", "dead-letter", "retry", "requeue", "left", "dropped"];
const REPLY_OUTCOMES: [&str; 4] = ["sent", "requester-gone", "lost", "disallowed"];

/// The label, in a handler's place, of what the routes of a queue have in common.
pub(crate) const ROUTES: &str = "routes";

impl Meters {
    pub(crate) fn of(queue: &str, handler: &str) -> Self {
        Self::with_slots_of(queue, handler, handler)
    }

    /// Those of a handler that has its queue's slots in common with other routes.
    pub(crate) fn of_route(queue: &str, handler: &str) -> Self {
        Self::with_slots_of(queue, handler, ROUTES)
    }

    fn with_slots_of(queue: &str, handler: &str, slots: &str) -> Self {
        let own = [("queue", queue), ("handler", handler)];
        let shared = [("queue", queue), ("handler", slots)];
        Self {
            open: AtomicUsize::default(),
            deliveries: Counter::register(DELIVERIES, &own),
            outcomes: std::array::from_fn(|kind| with(OUTCOMES, &own, outcome(kind))),
            redeliveries: Counter::register(REDELIVERIES, &own),
            replays: Counter::register(REPLAYS, &own),
            seconds: Histogram::register(SECONDS, &own),
            settlements: SETTLED
                .map(|settlement| with(SETTLEMENTS, &own, ("settlement", settlement))),
            dead_letters: std::array::from_fn(|at| {
                with(DEAD_LETTERS, &own, ("reason", Reason::ALL[at].as_str()))
            }),
            replies: REPLY_OUTCOMES.map(|outcome| with(REPLIES, &own, ("outcome", outcome))),
            stale_numbers: Counter::register(STALE_NUMBERS, &own),
            would_have_been: std::array::from_fn(|kind| with(WOULD_HAVE_BEEN, &own, outcome(kind))),
            in_flight: Gauge::register(IN_FLIGHT, &own),
            running: Gauge::register(RUNNING, &shared),
            held: Gauge::register(HELD, &shared),
        }
    }

    pub(crate) fn delivered(&self) {
        self.open.fetch_add(1, Relaxed);
        self.deliveries.add();
    }

    /// A delivery has ended in the kind at this place of [`ExecutionKind::ALL`].
    pub(crate) fn ended(&self, kind: usize) {
        self.open.fetch_sub(1, Relaxed);
        self.outcomes[kind].add();
    }

    /// How many deliveries have not ended.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    pub(crate) fn stale_number(&self) {
        self.stale_numbers.add();
    }

    /// It ran although it would not have, as the kind at this place says, were its handler not only
    /// observed.
    pub(crate) fn would_have_been(&self, kind: usize) {
        self.would_have_been[kind].add();
    }

    pub(crate) fn settled(&self, settled: &Settled<'_>) {
        self.settlements[place(settled.settlement)].add();
        if let Settlement::DeadLetter(reason) = settled.settlement {
            self.dead_letters[reason.index()].add();
        }
        if settled.redelivered {
            self.redeliveries.add();
        }
        if settled.replay {
            self.replays.add();
        }
        if let Some(outcome) = settled.reply {
            self.replies[place_of(outcome)].add();
        }
        self.seconds.took(settled.elapsed);
    }

    /// Brings the gauges up to date.
    pub(crate) fn sample(&self, slots: SlotCounts) {
        self.in_flight.count(self.open());
        self.running.count(slots.running);
        self.held.count(slots.waiting);
    }
}

/// The label of the kind at this place of [`ExecutionKind::ALL`].
fn outcome(kind: usize) -> Label<'static> {
    ("outcome", ExecutionKind::ALL[kind].label())
}

fn with(metric: Metric, own: &[Label<'_>; 2], further: Label<'_>) -> Counter {
    Counter::register(metric, &[own[0], own[1], further])
}

/// The settlement's place in [`SETTLED`].
pub(super) fn place(settlement: Settlement) -> usize {
    match settlement {
        Settlement::Ack => 0,
        Settlement::DeadLetter(_) => 1,
        Settlement::Retry { .. } => 2,
        Settlement::Requeue { .. } => 3,
        Settlement::Drop(_) => 5,
        // Held or left; also what a later version of the engine adds.
        _ => 4,
    }
}

/// The outcome's place in [`REPLY_OUTCOMES`].
fn place_of(outcome: ReplyOutcome) -> usize {
    match outcome {
        ReplyOutcome::Sent => 0,
        ReplyOutcome::RequesterGone => 1,
        ReplyOutcome::Lost => 2,
        ReplyOutcome::Disallowed => 3,
    }
}
