//! A topic, or its retry topic, with the handler that consumes it, whose types are hidden behind `RunHandler`.

use std::sync::Arc;

use idem_core::__telemetry::LogLines;

use crate::{
    Order, Record, Topic, lane::Lane, publisher::Publisher, runner::RunHandler,
    telemetry::RecordMeters,
};

/// A topic with its handler; or the topic in which its records wait for another attempt.
pub(crate) struct ConsumedTopic {
    pub(crate) topic: Topic,
    /// The handler's scope.
    pub(crate) handler: &'static str,
    pub(crate) dead_letters: String,
    pub(crate) retries: Option<String>,
    /// Whether it is a retry topic itself.
    pub(crate) is_retries: bool,
    pub(crate) runner: Arc<dyn RunHandler>,
    pub(crate) publisher: Publisher,
    /// How its records ended.
    pub(crate) meters: RecordMeters,
    /// How many lines the log gets of records that are given up.
    pub(crate) failure_lines: LogLines,
}

impl ConsumedTopic {
    /// The lane of a record; `None` if it waits for no other.
    pub(crate) fn lane_of(&self, record: &Record) -> Option<Lane> {
        match self.topic.order {
            // In which order records come again is not theirs.
            _ if record.comes_again() => None,
            Order::ByPartition => Some(Lane::Partition),
            Order::ByKey | Order::Unordered if self.runner.is_ordered() => {
                self.runner.ordered_by(record).map(Lane::OrderedBy)
            }
            Order::ByKey => record.shared_key().map(Lane::RecordKey),
            Order::Unordered => None,
        }
    }
}
