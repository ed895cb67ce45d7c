//! What is measured of a partition that is read.

use idem_core::__telemetry::{Gauge, Metric};

use crate::topic::Place;

const MARK: Metric = Metric {
    name: "idem_kafka_mark",
    help: "The lowest offset that the handler has not done.",
};
const LAG: Metric = Metric {
    name: "idem_kafka_lag_messages",
    help: "Offsets from the mark to the partition's end.",
};

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
