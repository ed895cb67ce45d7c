//! What is measured of a topic that a handler reads, and of each partition.

use std::array;

use idem_core::{
    __telemetry::{Counter, Gauge, Metric},
    executor::ExecutionKind,
    settlement::{Reason, Settlement},
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
const STOPPED: Metric = Metric {
    name: "idem_kafka_stopped",
    help: "1 if the partition stops at a record that cannot be handled.",
};

// The names and texts are those of `idem-amqp`, where a queue stands for the topic.
const OUTCOMES: Metric = Metric {
    name: "idem_outcomes_total",
    help: "How deliveries ended: each in exactly one outcome.",
};
const SETTLEMENTS: Metric = Metric {
    name: "idem_settlements_total",
    help: "What the broker was told of deliveries.",
};
const DEAD_LETTERS: Metric = Metric {
    name: "idem_dead_letters_total",
    help: "Deliveries whose message went to the dead-letter queue.",
};

/// What becomes of a record that its partition is done with.
const SETTLED: [&str; 4] = ["ack", "dead-letter", "retry", "dropped"];

/// The handles of the records of one topic and handler. All are there from the start, as zeros.
#[derive(Debug)]
pub(crate) struct RecordMeters {
    outcomes: [Counter; ExecutionKind::ALL.len()],
    settlements: [Counter; SETTLED.len()],
    dead_letters: [Counter; Reason::ALL.len()],
}

impl RecordMeters {
    pub(crate) fn of(handler: &str, topic: &str) -> Self {
        let counter = |metric, label, value| {
            let labels = [("topic", topic), ("handler", handler), (label, value)];
            Counter::register(metric, &labels)
        };
        Self {
            outcomes: array::from_fn(|at| {
                counter(OUTCOMES, "outcome", ExecutionKind::ALL[at].label())
            }),
            settlements: SETTLED.map(|settled| counter(SETTLEMENTS, "settlement", settled)),
            dead_letters: array::from_fn(|at| {
                counter(DEAD_LETTERS, "reason", Reason::ALL[at].as_str())
            }),
        }
    }

    /// A record has ended so.
    pub(crate) fn count(&self, kind: ExecutionKind, settlement: Settlement) {
        let at = ExecutionKind::ALL.iter().position(|other| *other == kind);
        self.outcomes[at.expect("ALL has every kind")].add();
        let settled = match settlement {
            Settlement::Ack => 0,
            Settlement::DeadLetter(reason) => {
                self.dead_letters[reason.index()].add();
                1
            }
            Settlement::Retry { .. } => 2,
            Settlement::Drop(_) => 3,
            // It is not done with.
            _ => return,
        };
        self.settlements[settled].add();
    }
}

/// The handles of one partition. All are 0 when the worker does not have it any more.
#[derive(Debug)]
pub(crate) struct PartitionMeters {
    mark: Gauge,
    lag: Gauge,
    stopped: Gauge,
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
            stopped: Gauge::register(STOPPED, &own),
        }
    }

    pub(crate) fn set_mark(&self, mark: u64) {
        self.mark.count(usize::try_from(mark).unwrap_or(usize::MAX));
    }

    pub(crate) fn set_lag(&self, offsets: u64) {
        self.lag
            .count(usize::try_from(offsets).unwrap_or(usize::MAX));
    }

    pub(crate) fn set_stopped(&self, stopped: bool) {
        self.stopped.count(usize::from(stopped));
    }
}

impl Drop for PartitionMeters {
    fn drop(&mut self) {
        self.set_mark(0);
        self.set_lag(0);
        self.set_stopped(false);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The words of a text that begin so.
    fn words<'a>(text: &'a str, begin: &str) -> BTreeSet<&'a str> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with(begin)).collect()
    }

    #[test]
    fn the_page_names_what_is_measured() {
        let mut named = words(include_str!("../../docs/kafka.md"), "idem_");
        named.retain(|word| !["idem_core", "idem_kafka"].contains(word));
        let metrics = [MARK, LAG, STOPPED, OUTCOMES, SETTLEMENTS, DEAD_LETTERS];
        assert_eq!(named, metrics.map(|metric| metric.name).into());
    }

    /// What a worker of RabbitMQ has, too, is compared by `order-worker`.
    #[test]
    fn the_dashboard_shows_what_is_measured_of_partitions() {
        let dashboard = include_str!("../../docs/operations/grafana-dashboard.json");
        let metrics = [MARK, LAG, STOPPED];
        let shown = words(dashboard, "idem_kafka_");
        assert_eq!(shown, metrics.map(|metric| metric.name).into());
    }
}
