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
    /// Nothing.
    pub fn register(_: Metric, _: &[Label<'_>]) -> Self {
        Self
    }

    /// Nothing.
    pub fn add(&self) {}

    /// Nothing.
    pub(crate) fn add_many(&self, _: u64) {}

    /// Nothing.
    pub fn count(&self, _: u64) {}

    /// Nothing.
    pub fn set(&self, _: u64) {}
}

impl Gauge {
    /// Nothing.
    pub fn register(_: Metric, _: &[Label<'_>]) -> Self {
        Self
    }

    /// Nothing.
    pub fn set(&self, _: f64) {}

    /// Nothing.
    pub fn add(&self, _: f64) {}

    /// Nothing.
    pub fn count(&self, _: usize) {}
}

impl Histogram {
    /// Nothing.
    pub fn register(_: Metric, _: &[Label<'_>]) -> Self {
        Self
    }

    /// Nothing.
    pub fn record(&self, _: Stopwatch) {}

    /// Nothing.
    pub fn took(&self, _: Duration) {}

    /// Nothing.
    pub fn count(&self, _: usize) {}
}

impl Stopwatch {
    /// Nothing.
    pub fn start() -> Self {
        Self
    }
}
