//! What is measured of one handler's reading of a stream.

use std::time::Duration;

use idem_core::__telemetry::{Gauge, Metric};

const READS: Metric = Metric {
    name: "idem_stream_reads",
    help: "1 if this worker reads the stream for its handler, 0 if it stands by.",
};
const MARK: Metric = Metric {
    name: "idem_stream_mark",
    help: "The lowest offset that the handler has not done.",
};
const LAG: Metric = Metric {
    name: "idem_stream_lag_messages",
    help: "Messages from the mark to the stream's last chunk, where that begins.",
};
const OLDEST: Metric = Metric {
    name: "idem_stream_oldest_seconds",
    help: "For how long the message at the mark has been in the worker.",
};
const STOPPED: Metric = Metric {
    name: "idem_stream_stopped",
    help: "1 if the stream stops at a message that cannot be handled.",
};

/// The handles of one stream and handler. All are 0 while another worker reads.
#[derive(Debug)]
pub(crate) struct StreamMeters {
    reads: Gauge,
    mark: Gauge,
    lag: Gauge,
    oldest: Gauge,
    stopped: Gauge,
}

impl StreamMeters {
    pub(crate) fn of(stream: &str, handler: &str) -> Self {
        let own = [("queue", stream), ("handler", handler)];
        Self {
            reads: Gauge::register(READS, &own),
            mark: Gauge::register(MARK, &own),
            lag: Gauge::register(LAG, &own),
            oldest: Gauge::register(OLDEST, &own),
            stopped: Gauge::register(STOPPED, &own),
        }
    }

    /// The mark, and for how long the message there has been in the worker.
    pub(crate) fn reads(&self, mark: u64, oldest: Duration) {
        self.reads.count(1);
        self.mark.count(usize::try_from(mark).unwrap_or(usize::MAX));
        self.oldest.set(oldest.as_secs_f64());
    }

    pub(crate) fn lags(&self, messages: u64) {
        self.lag
            .count(usize::try_from(messages).unwrap_or(usize::MAX));
    }

    pub(crate) fn stops(&self, stopped: bool) {
        self.stopped.count(usize::from(stopped));
    }

    /// Another worker reads now, or nobody does.
    pub(crate) fn reads_no_more(&self) {
        for gauge in [
            &self.reads,
            &self.mark,
            &self.lag,
            &self.oldest,
            &self.stopped,
        ] {
            gauge.count(0);
        }
    }
}
