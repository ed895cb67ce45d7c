//! What is counted of a layer's requests: `docs/http.md` says what each metric means.
//!
//! Through the facade of the crate `metrics`, with the feature `metrics`; without it nothing is kept. What must stay
//! true: each request ends in exactly one outcome, also if its client has gone or its task is dropped.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

use idem_core::{
    __telemetry::{Counter, Gauge, Histogram, LogLines, Metric, Stopwatch},
    Key,
    executor::ExecutionKind,
};

const REQUESTS: Metric = Metric {
    name: "idem_http_requests_total",
    help: "Requests that the layer is for.",
};
const OUTCOMES: Metric = Metric {
    name: "idem_http_outcomes_total",
    help: "How requests ended: each in exactly one outcome.",
};
const WOULD_HAVE_BEEN: Metric = Metric {
    name: "idem_http_would_have_been_total",
    help: "What requests to layers that only observe would have been, and were not.",
};
const UNRECORDED: Metric = Metric {
    name: "idem_http_unrecorded_total",
    help: "Requests that were answered before the store had recorded their end.",
};
const SECONDS: Metric = Metric {
    name: "idem_http_request_seconds",
    help: "From a request's head to its outcome: reading its body, waiting and running.",
};
const IN_FLIGHT: Metric = Metric {
    name: "idem_http_in_flight",
    help: "Requests that have not ended.",
};

/// One layer's handles.
#[derive(Debug)]
pub(crate) struct Meters {
    requests: Counter,
    outcomes: [Counter; ExecutionKind::ALL.len()],
    would_have_been: [Counter; ExecutionKind::ALL.len()],
    unrecorded: Counter,
    seconds: Histogram,
    in_flight: Gauge,
    /// Whether somebody brings the engine's gauges up to date.
    is_sampled: AtomicBool,
    /// Whether the log says that requests run without a key.
    is_unkeyed_told: AtomicBool,
    log: LogLines,
}

impl Meters {
    /// The meters of the layer of this name.
    pub(crate) fn of(name: &str) -> Self {
        let own = ("handler", name);
        let with = |metric, kind: usize| {
            let outcome = ("outcome", ExecutionKind::ALL[kind].label());
            Counter::register(metric, &[own, outcome])
        };
        Self {
            requests: Counter::register(REQUESTS, &[own]),
            outcomes: std::array::from_fn(|kind| with(OUTCOMES, kind)),
            would_have_been: std::array::from_fn(|kind| with(WOULD_HAVE_BEEN, kind)),
            unrecorded: Counter::register(UNRECORDED, &[own]),
            seconds: Histogram::register(SECONDS, &[own]),
            in_flight: Gauge::register(IN_FLIGHT, &[own]),
            is_sampled: AtomicBool::new(false),
            is_unkeyed_told: AtomicBool::new(false),
            log: LogLines::default(),
        }
    }

    /// A client was answered before the store had recorded how its request ended.
    pub(crate) fn count_unrecorded(&self) {
        self.unrecorded.add();
    }

    /// Whether this is the first time that it is asked, and there is something to sample.
    pub(crate) fn is_to_be_sampled(&self) -> bool {
        cfg!(feature = "metrics") && is_first(&self.is_sampled)
    }

    /// A request to this path has no key, and runs all the same. Logged once for each layer: who made the key optional
    /// knows that there are such requests, and their number is counted.
    pub(crate) fn tell_unkeyed(&self, handler: &str, path: impl FnOnce() -> String) {
        if is_first(&self.is_unkeyed_told) {
            tracing::warn!(
                handler,
                path = path(),
                "a request without an idempotency key runs unprotected: keys are optional, and a copy of it runs again; this is told once"
            );
        }
    }
}

/// Whether this is the first time that it is asked of this flag.
fn is_first(flag: &AtomicBool) -> bool {
    !flag.load(Relaxed) && !flag.swap(true, Relaxed)
}

/// A request that has not ended. Dropped, it has ended as [`otherwise`](Self::otherwise) says.
#[derive(Debug)]
pub(crate) struct Open {
    meters: Arc<Meters>,
    began: Stopwatch,
    ends_as: ExecutionKind,
}

impl Open {
    /// A request has come. If nothing is said of its end, its client has gone before it was there as a whole.
    pub(crate) fn request(meters: &Arc<Meters>) -> Self {
        meters.requests.add();
        meters.in_flight.add(1.0);
        Self {
            meters: Arc::clone(meters),
            began: Stopwatch::start(),
            ends_as: ExecutionKind::Abandoned,
        }
    }

    /// How it has ended if it is dropped from now on.
    pub(crate) fn otherwise(&mut self, kind: ExecutionKind) {
        self.ends_as = kind;
    }

    /// It has ended so; and would have ended otherwise, if the layer did not only observe.
    pub(crate) fn end(
        mut self,
        kind: ExecutionKind,
        would_have_been: Option<ExecutionKind>,
        key: Option<&Key>,
    ) {
        self.ends_as = kind;
        let Some(would) = would_have_been else { return };
        if let Some(place) = place(would) {
            self.meters.would_have_been[place].add();
        }
        if let Some(left_out) = self.meters.log.next(Instant::now()) {
            tracing::warn!(
                key = key.map(tracing::field::display),
                would_have_been = would.label(),
                left_out = (left_out > 0).then_some(left_out),
                "a request ran because its layer only observes"
            );
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(place) = place(self.ends_as) {
            self.meters.outcomes[place].add();
        }
        self.meters.seconds.record(self.began);
        self.meters.in_flight.add(-1.0);
    }
}

fn place(kind: ExecutionKind) -> Option<usize> {
    ExecutionKind::ALL.iter().position(|it| *it == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_place() {
        for (at, kind) in ExecutionKind::ALL.iter().enumerate() {
            assert_eq!(place(*kind), Some(at), "{kind}");
        }
    }
}
