//! What is measured of connections, and of a worker as a whole.

use std::time::Duration;

use idem_core::__telemetry::{Counter, Gauge, Histogram, Metric};

use crate::wire::incident::Incident;

const CONNECTIONS: Metric = Metric {
    name: "idem_connections_total",
    help: "Connections made to consume: the first one, and each that replaced another.",
};
const INCIDENTS: Metric = Metric {
    name: "idem_incidents_total",
    help: "What happened to connections, channels and consumers.",
};
const READY: Metric = Metric {
    name: "idem_ready",
    help: "1 if the worker consumes all its queues and can be done with their messages, or else 0.",
};
const FAILING: Metric = Metric {
    name: "idem_failing_seconds",
    help: "For how long the worker has been unable to do its job; 0 if it is able.",
};

const BATCH: Metric = Metric {
    name: "idem_publish_batch_messages",
    help: "Messages that were published together, and whose confirms were awaited together.",
};

/// The connections of a worker, or of a publisher of its own.
#[derive(Debug)]
pub(crate) struct Links {
    connections: Counter,
    incidents: [Counter; Incident::ALL.len()],
    ready: Gauge,
    failing: Gauge,
    batch: Histogram,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            connections: Counter::register(CONNECTIONS, &[]),
            incidents: Incident::ALL
                .map(|incident| Counter::register(INCIDENTS, &[("incident", incident.label())])),
            ready: Gauge::register(READY, &[]),
            failing: Gauge::register(FAILING, &[]),
            batch: Histogram::register(BATCH, &[]),
        }
    }
}

impl Links {
    pub(crate) fn connected(&self) {
        self.connections.add();
    }

    pub(crate) fn record_incident(&self, incident: Incident) {
        self.incidents[incident.index()].add();
    }

    /// A batch goes out, of so many messages.
    pub(crate) fn published(&self, messages: usize) {
        self.batch.count(messages);
    }

    /// How the worker is now.
    pub(crate) fn set_ready(&self, ready: bool, failing_for: Option<Duration>) {
        self.ready.count(ready.into());
        self.failing
            .set(failing_for.unwrap_or_default().as_secs_f64());
    }
}
