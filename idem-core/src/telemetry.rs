//! What operators see of the engine: the one place of its metrics and spans.
//!
//! Metrics go through the facade of the crate `metrics`, with the feature `metrics`; without it their types
//! are empty and do nothing. `docs/operations.md` says what each metric means. Handles are registered once,
//! when an executor is made, a store is opened, or a handler is consumed: an application installs its
//! recorder before that.
// docs/decisions/0023

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
mod batches;
mod handlers;
#[cfg(feature = "metrics")]
mod live;
mod log_lines;
mod purged;
#[cfg(not(feature = "metrics"))]
mod silent;
pub(crate) mod spans;

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
pub(crate) use batches::Batches;
pub(crate) use handlers::{Handlers, Progress, ReportCounts};
#[cfg(feature = "metrics")]
pub use live::{Counter, Gauge, Histogram, Stopwatch};
pub use log_lines::LogLines;
pub(crate) use purged::Purged;
#[cfg(not(feature = "metrics"))]
pub use silent::{Counter, Gauge, Histogram, Stopwatch};

/// A metric's name, and what it tells.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name as Prometheus has it, the unit included: `idem_store_seconds`.
    pub name: &'static str,
    /// One line.
    pub help: &'static str,
}

/// A label's name and value.
pub type Label<'a> = (&'static str, &'a str);
