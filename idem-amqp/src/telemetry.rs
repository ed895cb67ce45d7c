//! What operators see of a worker: the one place of its metrics and spans. Those of the engine are
//! `idem-core`'s.
//!
//! `docs/operations.md` says what each metric means. Handles are registered once, when a handler is consumed
//! and when a worker or a publisher is built: an application installs its recorder before that.
// docs/decisions/0023

#[cfg_attr(not(feature = "opentelemetry"), path = "telemetry/no_context.rs")]
mod context;
mod failures;
mod links;
mod meters;
mod outbox;
pub(crate) mod spans;
mod streams;

#[cfg(feature = "opentelemetry")]
pub(crate) use context::Carrier;
pub(crate) use context::inject;
pub(crate) use failures::{AttemptEnd, FailureLog};
pub(crate) use links::Links;
pub(crate) use meters::{Meters, ROUTES, SlotCounts};
pub(crate) use outbox::OutboxMeters;
pub(crate) use streams::StreamMeters;

use idem_core::settlement::Settlement;

/// What a settlement is called in metrics and spans.
fn label(settlement: Settlement) -> &'static str {
    meters::SETTLED[meters::place(settlement)]
}
