//! What is measured of each handler, whatever its mode and its transport.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, PoisonError, RwLock},
    time::Duration,
};

use tracing::Instrument as _;

use super::{Counter, Gauge, Histogram, Metric, Stopwatch, spans};
use crate::futures::FutureExt as _;

const RUN: Metric = Metric {
    name: "idem_handler_seconds",
    help: "Runs of the handler itself, failed and dropped ones included.",
};
const BATCH: Metric = Metric {
    name: "idem_handler_batch_messages",
    help: "Messages that shared one call of a handler of batches.",
};
const HALVED: Metric = Metric {
    name: "idem_batches_halved_total",
    help: "Calls of batches that failed: their messages were called again, fewer at a time.",
};
const LEASES_LOST: Metric = Metric {
    name: "idem_leases_lost_total",
    help: "Runs whose lease another worker took over.",
};
const IN_PROGRESS: Metric = Metric {
    name: "idem_claims_in_progress",
    help: "Keys that this process works on.",
};
const OLDEST: Metric = Metric {
    name: "idem_oldest_claim_seconds",
    help: "For how long this process has worked on the key that it has had longest.",
};
const REPORTS: Metric = Metric {
    name: "idem_reports_total",
    help: "Attempts made without the store, of which it has been told since.",
};
const PENDING: Metric = Metric {
    name: "idem_reports_pending",
    help: "Attempts made without the store, of which it is still to be told.",
};

/// The handlers of an executor. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Handlers {
    known: Arc<RwLock<HashMap<Box<str>, Arc<Meters>>>>,
    told: Counter,
    overtaken: Counter,
    pending: Gauge,
}

#[derive(Debug)]
struct Meters {
    run: Histogram,
    leases_lost: Counter,
    /// The metrics of batches, once it is known that the handler takes them: other handlers have no such metrics.
    batches: OnceLock<BatchMeters>,
    in_progress: Gauge,
    oldest: Gauge,
}

#[derive(Debug)]
struct BatchMeters {
    messages: Histogram,
    halved: Counter,
}

/// The keys of one handler that this process works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    pub(crate) keys: usize,
    pub(crate) oldest: Duration,
}

/// Attempts made without the store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportCounts {
    /// How many the store has been told of since.
    pub(crate) told: u64,
    /// How many another attempt has overtaken.
    pub(crate) overtaken: u64,
    /// How many the store is still to be told of.
    pub(crate) pending: u64,
}

impl Default for Handlers {
    fn default() -> Self {
        Self {
            known: Arc::default(),
            told: Counter::register(REPORTS, &[("report", "told")]),
            overtaken: Counter::register(REPORTS, &[("report", "overtaken")]),
            pending: Gauge::register(PENDING, &[]),
        }
    }
}

impl Handlers {
    /// Registers its metrics now, so that they are there before its first message.
    pub(crate) fn register(&self, handler: &str) {
        if cfg!(feature = "metrics") {
            self.meters(handler);
        }
    }

    /// Registers those that only handlers of batches have.
    pub(crate) fn register_batches(&self, handler: &str) {
        if cfg!(feature = "metrics") {
            self.meters(handler).batches(handler);
        }
    }

    /// The handler's work, measured until it ends or is dropped.
    pub(crate) fn run<F: Future>(
        &self,
        handler: &str,
        attempt: u32,
        in_doubt: bool,
        work: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let run = cfg!(feature = "metrics").then(|| Run {
            meters: self.meters(handler),
            began: Stopwatch::start(),
        });
        work.instrument(spans::run(handler, attempt, in_doubt))
            .map(move |ended| {
                drop(run);
                ended
            })
    }

    /// Counts a run whose lease another worker took over.
    pub(crate) fn lease_lost(&self, handler: &str) {
        if cfg!(feature = "metrics") {
            self.meters(handler).leases_lost.add();
        }
    }

    /// Counts a call with so many messages.
    pub(crate) fn batch_called(&self, handler: &str, messages: usize) {
        if cfg!(feature = "metrics") {
            let meters = self.meters(handler);
            meters.batches(handler).messages.count(messages);
        }
    }

    /// Counts a call of a batch that failed: its messages are called again, fewer at a time.
    pub(crate) fn batch_halved(&self, handler: &str) {
        if cfg!(feature = "metrics") {
            let meters = self.meters(handler);
            meters.batches(handler).halved.add();
        }
    }

    /// Brings the gauges up to date.
    pub(crate) fn sample(&self, progress: impl Fn(&str) -> Progress, reports: ReportCounts) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        for (handler, meters) in &*known {
            let Progress { keys, oldest } = progress(handler);
            meters.in_progress.count(keys);
            meters.oldest.set(oldest.as_secs_f64());
        }
        self.told.set(reports.told);
        self.overtaken.set(reports.overtaken);
        self.pending
            .count(usize::try_from(reports.pending).unwrap_or(usize::MAX));
    }

    fn meters(&self, handler: &str) -> Arc<Meters> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(meters) = known.get(handler) {
            return Arc::clone(meters);
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let meters = known.entry(handler.into());
        Arc::clone(meters.or_insert_with(|| Arc::new(Meters::of(handler))))
    }
}

impl Meters {
    fn of(handler: &str) -> Self {
        let labels = [("handler", handler)];
        Self {
            run: Histogram::register(RUN, &labels),
            leases_lost: Counter::register(LEASES_LOST, &labels),
            batches: OnceLock::new(),
            in_progress: Gauge::register(IN_PROGRESS, &labels),
            oldest: Gauge::register(OLDEST, &labels),
        }
    }

    fn batches(&self, handler: &str) -> &BatchMeters {
        self.batches.get_or_init(|| {
            let labels = [("handler", handler)];
            BatchMeters {
                messages: Histogram::register(BATCH, &labels),
                halved: Counter::register(HALVED, &labels),
            }
        })
    }
}

/// One run of a handler.
struct Run {
    meters: Arc<Meters>,
    began: Stopwatch,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.meters.run.record(self.began);
    }
}
