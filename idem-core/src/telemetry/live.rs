//! Handles of metrics: registered once, nothing but a branch when nobody listens.

use std::time::{Duration, Instant};

use super::{Label, Metric};

/// A number that only grows.
#[derive(Debug, Clone)]
pub struct Counter(metrics::Counter);

/// A number that is now so.
#[derive(Debug, Clone)]
pub struct Gauge(metrics::Gauge);

/// How often which values occurred.
#[derive(Debug, Clone)]
pub struct Histogram(metrics::Histogram);

/// When something began.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Counter {
    /// Registers it with the recorder that is installed now.
    pub fn register(metric: Metric, labels: &[Label<'_>]) -> Self {
        metrics::describe_counter!(metric.name, metric.help);
        Self(metrics::counter!(metric.name, &owned(labels)))
    }

    /// Counts one more.
    pub fn add(&self) {
        self.0.increment(1);
    }

    /// Counts so many more.
    pub fn count(&self, more: u64) {
        self.0.increment(more);
    }

    /// Counts so many more.
    pub(crate) fn add_many(&self, count: u64) {
        self.0.increment(count);
    }

    /// Takes over what was counted elsewhere.
    pub fn set(&self, total: u64) {
        self.0.absolute(total);
    }
}

impl Gauge {
    /// Registers it with the recorder that is installed now.
    pub fn register(metric: Metric, labels: &[Label<'_>]) -> Self {
        metrics::describe_gauge!(metric.name, metric.help);
        Self(metrics::gauge!(metric.name, &owned(labels)))
    }

    /// It is now so.
    pub fn set(&self, value: f64) {
        self.0.set(value);
    }

    /// It has become so much more, or less.
    pub fn add(&self, more: f64) {
        self.0.increment(more);
    }

    /// There are now so many.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    pub fn count(&self, value: usize) {
        self.0.set(value as f64);
    }
}

impl Histogram {
    /// Registers it with the recorder that is installed now.
    pub fn register(metric: Metric, labels: &[Label<'_>]) -> Self {
        metrics::describe_histogram!(metric.name, metric.help);
        Self(metrics::histogram!(metric.name, &owned(labels)))
    }

    /// The time since this began, in seconds.
    pub fn record(&self, since: Stopwatch) {
        self.0.record(since.0.elapsed());
    }

    /// It took so long.
    pub fn took(&self, time: Duration) {
        self.0.record(time);
    }

    /// There were so many.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    pub fn count(&self, value: usize) {
        self.0.record(value as f64);
    }
}

impl Stopwatch {
    /// It begins now.
    pub fn start() -> Self {
        Self(Instant::now())
    }
}

fn owned(labels: &[Label<'_>]) -> Vec<(&'static str, String)> {
    let labels = labels.iter();
    labels
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect()
}
