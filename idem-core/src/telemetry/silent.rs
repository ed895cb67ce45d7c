//! The same without the feature `metrics`: nothing is kept and nothing is done.

#![allow(clippy::unused_self, reason = "as with the feature")]

use std::time::Duration;

use super::{Label, Metric};

/// A number that only grows.
#[derive(Debug, Clone)]
pub struct Counter;

/// A number that is now so.
#[derive(Debug, Clone)]
pub struct Gauge;

/// How often which values occurred.
#[derive(Debug, Clone)]
pub struct Histogram;

/// When something began.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch;

impl Counter {
    /// A counter that counts nothing.
    pub fn register(_: Metric, _: &[Label<'_>]) -> Self {
        Self
    }

    /// Does nothing.
    pub fn add(&self) {}

    /// Does nothing.
    pub(crate) fn add_many(&self, _: u64) {}

    /// Does nothing.
    pub fn count(&self, _: u64) {}

    /// Does nothing.
    pub fn set(&self, _: u64) {}
}

impl Gauge {
    /// A gauge that shows nothing.
    pub fn register(_: Metric, _: &[Label<'_>]) -> Self {
        Self
    }

    /// Does nothing.
    pub fn set(&self, _: f64) {}

    /// Does nothing.
    pub fn add(&self, _: f64) {}

    /// Does nothing.
    pub fn count(&self, _: usize) {}
}

impl Histogram {
    /// A histogram that records nothing.
    pub fn register(_: Metric, _: &[Label<'_>]) -> Self {
        Self
    }

    /// Does nothing.
    pub fn record(&self, _: Stopwatch) {}

    /// Does nothing.
    pub fn took(&self, _: Duration) {}

    /// Does nothing.
    pub fn count(&self, _: usize) {}
}

impl Stopwatch {
    /// A stopwatch that measures nothing.
    pub fn start() -> Self {
        Self
    }
}
