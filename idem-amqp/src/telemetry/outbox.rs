//! What is measured of an outbox: what a worker or a relay does, and what is in the table, whoever has put it there.

use std::time::Duration;

use idem_core::__telemetry::{Counter, Gauge, Histogram, Metric};

const COMMITTED: Metric = Metric {
    name: "idem_outbox_committed_total",
    help: "Messages that handlers of this process have committed to the outbox.",
};
const CONFIRMED: Metric = Metric {
    name: "idem_outbox_confirmed_total",
    help: "Messages of the outbox that a queue has, by the broker's word.",
};
const TAKEN: Metric = Metric {
    name: "idem_outbox_taken_total",
    help: "Messages that were taken from the outbox's table.",
};
const PUT_BACK: Metric = Metric {
    name: "idem_outbox_put_back_total",
    help: "Messages of the outbox that could not be published, and are tried again.",
};
const GIVEN_UP: Metric = Metric {
    name: "idem_outbox_given_up_total",
    help: "Messages of the outbox that can never be published, as far as one can tell.",
};
const SECONDS: Metric = Metric {
    name: "idem_outbox_seconds",
    help: "From a commit to the broker's confirm, of messages that who has committed them publishes at once.",
};
const MESSAGES: Metric = Metric {
    name: "idem_outbox_messages",
    help: "Messages in the outbox's table, up to 10000 of each state.",
};
const OLDEST: Metric = Metric {
    name: "idem_outbox_oldest_seconds",
    help: "For how long the oldest message that waits in the outbox has waited.",
};

/// The handles of one worker, or of one relay.
#[derive(Debug)]
pub(crate) struct OutboxMeters {
    pub(crate) committed: Counter,
    pub(crate) confirmed: Counter,
    pub(crate) taken: Counter,
    pub(crate) put_back: Counter,
    pub(crate) given_up: Counter,
    pub(crate) seconds: Histogram,
    waiting: Gauge,
    later: Gauge,
    dead: Gauge,
    oldest: Gauge,
}

impl Default for OutboxMeters {
    fn default() -> Self {
        let messages = |state| Gauge::register(MESSAGES, &[("state", state)]);
        Self {
            committed: Counter::register(COMMITTED, &[]),
            confirmed: Counter::register(CONFIRMED, &[]),
            taken: Counter::register(TAKEN, &[]),
            put_back: Counter::register(PUT_BACK, &[]),
            given_up: Counter::register(GIVEN_UP, &[]),
            seconds: Histogram::register(SECONDS, &[]),
            waiting: messages("waiting"),
            later: messages("later"),
            dead: messages("dead"),
            oldest: Gauge::register(OLDEST, &[]),
        }
    }
}

impl OutboxMeters {
    /// What the table holds now.
    pub(crate) fn set_contents(&self, [waiting, later, dead]: [u64; 3], oldest: Duration) {
        let set = |gauge: &Gauge, count: u64| gauge.count(count.try_into().unwrap_or(usize::MAX));
        set(&self.waiting, waiting);
        set(&self.later, later);
        set(&self.dead, dead);
        self.oldest.set(oldest.as_secs_f64());
    }
}
