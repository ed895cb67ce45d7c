//! What is measured of a topic that a handler reads, and of each partition.

use idem_core::{
    __telemetry::{Counter, Gauge, Metric},
    executor::ExecutionKind,
};

use crate::topic::Place;

const MARK: Metric = Metric {
    name: "idem_kafka_mark",
    help: "The lowest offset that the handler has not done.",
};
const LAG: Metric = Metric {
    name: "idem_kafka_lag_messages",
    help: "Offsets from the mark to the partition's end.",
};

/// The name and the text of `idem-amqp`: its label is the queue instead of the topic.
const OUTCOMES: Metric = Metric {
    name: "idem_outcomes_total",
    help: "How deliveries ended: each in exactly one outcome.",
};

/// The handles of one topic and handler, one for each of [`ExecutionKind::ALL`].
#[derive(Debug)]
pub(crate) struct OutcomeMeters([Counter; ExecutionKind::ALL.len()]);

impl OutcomeMeters {
    pub(crate) fn of(handler: &str, topic: &str) -> Self {
        Self(std::array::from_fn(|kind| {
            let outcome = ExecutionKind::ALL[kind].label();
            let labels = [("topic", topic), ("handler", handler), ("outcome", outcome)];
            Counter::register(OUTCOMES, &labels)
        }))
    }

    /// A record has ended so.
    pub(crate) fn count(&self, kind: ExecutionKind) {
        let at = ExecutionKind::ALL.iter().position(|other| *other == kind);
        self.0[at.expect("ALL has every kind")].add();
    }
}

/// The handles of one partition. Both are 0 when the worker does not have it any more.
#[derive(Debug)]
pub(crate) struct PartitionMeters {
    mark: Gauge,
    lag: Gauge,
}

impl PartitionMeters {
    pub(crate) fn of(handler: &str, (topic, partition): &Place) -> Self {
        let partition = partition.to_string();
        let own = [
            ("handler", handler),
            ("topic", &**topic),
            ("partition", &*partition),
        ];
        Self {
            mark: Gauge::register(MARK, &own),
            lag: Gauge::register(LAG, &own),
        }
    }

    pub(crate) fn set_mark(&self, mark: u64) {
        self.mark.count(usize::try_from(mark).unwrap_or(usize::MAX));
    }

    pub(crate) fn set_lag(&self, offsets: u64) {
        self.lag
            .count(usize::try_from(offsets).unwrap_or(usize::MAX));
    }
}

impl Drop for PartitionMeters {
    fn drop(&mut self) {
        self.set_mark(0);
        self.set_lag(0);
    }
}
