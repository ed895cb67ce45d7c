//! The engine's spans: claim, run, complete, release. At debug level, under the target
//! `idem_core::telemetry::spans`; a transport's span of the delivery is round them.
//!
//! Fields of OpenTelemetry's own have its names (semantic conventions 1.42.0), ours begin with `idem.`.

use std::fmt;

use tracing::{
    Span, debug_span,
    field::{Empty, display},
};

/// The store is asked for the key: also in the beginning of a transaction.
pub(crate) fn claim(key: &str) -> Span {
    debug_span!(
        "claim",
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.type = Empty,
        idem.key = key,
        idem.answer = Empty,
        idem.attempt = Empty,
    )
}

/// The final outcome is written: also in the commit of a transaction.
pub(crate) fn complete(key: &str) -> Span {
    let span = record();
    span.record("idem.key", key);
    span
}

/// The final outcomes of a batch of messages are written, in the commit of their transaction.
pub(crate) fn complete_all(messages: usize) -> Span {
    let span = record();
    span.record("idem.messages", messages);
    span
}

/// A transaction is committed whose own table, or the mark of a stream, says what was handled.
pub(crate) fn record() -> Span {
    debug_span!(
        "complete",
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.type = Empty,
        idem.key = Empty,
        idem.messages = Empty,
        idem.answer = Empty,
    )
}

/// The key is given back.
pub(crate) fn release(key: &str) -> Span {
    debug_span!(
        "release",
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.type = Empty,
        idem.key = key,
        idem.answer = Empty,
    )
}

/// The handler runs.
pub(crate) fn run(handler: &str, attempt: u32, in_doubt: bool) -> Span {
    debug_span!(
        "run",
        idem.handler = handler,
        idem.attempt = attempt,
        idem.in_doubt = in_doubt,
    )
}

/// The store has answered.
pub(crate) fn answered(span: &Span, answer: &'static str, attempt: Option<u32>) {
    span.record("idem.answer", answer);
    if let Some(attempt) = attempt {
        span.record("idem.attempt", attempt);
    }
}

/// The store could not answer.
pub(crate) fn unanswered(span: &Span, kind: &'static str, error: &impl fmt::Display) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", display(error));
}
