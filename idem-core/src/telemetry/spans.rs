//! The engine's spans: claim, run, complete, release. At debug level, under the target
//! `idem_core::telemetry::spans`; a transport's span of the delivery is round them.
//!
//! Fields of OpenTelemetry's own have its names (semantic conventions 1.42.0), ours begin with `idem.`.

use tracing::{
    Span, debug_span,
    field::{Empty, display},
};

use crate::{Attempt, Key, StoreError};

/// The store is asked for the key: also in the beginning of a transaction.
pub(super) fn claim(key: &Key) -> Span {
    debug_span!(
        "claim",
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.type = Empty,
        idem.key = %key,
        idem.answer = Empty,
        idem.attempt = Empty,
    )
}

/// The final outcome is written: also in the commit of a transaction.
pub(super) fn complete(key: &Key) -> Span {
    debug_span!(
        "complete",
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.type = Empty,
        idem.key = %key,
        idem.answer = Empty,
    )
}

/// A transaction is committed whose own table says what was handled.
pub(super) fn record() -> Span {
    debug_span!(
        "complete",
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.type = Empty,
        idem.answer = Empty,
    )
}

/// The key is given back.
pub(super) fn release(key: &Key) -> Span {
    debug_span!(
        "release",
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.type = Empty,
        idem.key = %key,
        idem.answer = Empty,
    )
}

/// The handler runs.
pub(super) fn run(handler: &str, attempt: Attempt) -> Span {
    debug_span!(
        "run",
        idem.handler = handler,
        idem.attempt = attempt.number(),
        idem.in_doubt = attempt.is_in_doubt(),
    )
}

/// The store has answered.
pub(super) fn answered(span: &Span, answer: &'static str, attempt: Option<u32>) {
    span.record("idem.answer", answer);
    if let Some(attempt) = attempt {
        span.record("idem.attempt", attempt);
    }
}

/// The store could not answer.
pub(super) fn unanswered(span: &Span, error: &StoreError) {
    span.record("error.type", kind(error));
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", display(error));
}

fn kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::Unavailable(_) => "store_unavailable",
        StoreError::Refused(_) => "store_refused",
        StoreError::Full(_) => "store_full",
        StoreError::Corrupt { .. } => "record_corrupt",
    }
}
