//! What a client is told that is not its handler's response: `application/problem+json` of RFC 9457.

use std::{fmt, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use idem_core::executor::ExecutionKind;
use serde_json::json;

use crate::{key::KeyProblem, remember::Remember};

/// What a client is told of an error that is the service's alone; the rest is in the log.
pub(crate) const FAILED: &str = "the service could not handle it; send it again, with the same key";

/// What was wrong, for programs: the last part of the problem's `type`. Frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// 400: the request has no key, and needs one.
    KeyMissing,
    /// 400: the key is not one.
    KeyInvalid,
    /// 400: the layer found no scope for the request.
    ScopeMissing,
    /// 422: the key was used for another request.
    KeyReused,
    /// 409: the first request with this key is still under way.
    InProgress,
    /// 409: the request was handled, and its response was not kept. It does not run again.
    ResponseNotKept,
    /// 409: an earlier attempt ended without a word, and a person has to decide.
    InDoubt,
    /// 413: the request's body is too large to be compared.
    BodyTooLarge,
    /// 408: the request's body did not arrive in time.
    BodyTimeout,
    /// 400: the request's body broke off.
    BodyBroken,
    /// 415, of gRPC: the message is compressed, and its key is a field of it.
    BodyEncoded,
    /// 415, of gRPC: the request is none of gRPC's. Nothing ran.
    OtherProtocol,
    /// 501, of gRPC: the call has more than one message, and only unary calls are handled once.
    Streamed,
    /// 500: the handler panicked, the database refused its transaction, or its response broke off.
    HandlerFailed,
    /// 500: the store has a record of the key that this version cannot read.
    RecordUnreadable,
    /// 503: the store cannot be asked. This copy did not run; an earlier one may have.
    StoreUnavailable,
    /// 503: the handler takes longer than a client is kept waiting, and goes on; or it has ended, and the store does
    /// not say whether its writes are committed.
    Deadline,
    /// 503: the service is about to end. Nothing ran.
    ShuttingDown,
    /// 503: no transaction was to be had, or the service behind the layer was not ready. Nothing ran.
    Busy,
}

impl ProblemKind {
    /// The last part of the problem's `type`.
    pub const fn label(self) -> &'static str {
        match self {
            Self::KeyMissing => "key-missing",
            Self::KeyInvalid => "key-invalid",
            Self::ScopeMissing => "scope-missing",
            Self::KeyReused => "key-reused",
            Self::InProgress => "in-progress",
            Self::ResponseNotKept => "response-not-kept",
            Self::InDoubt => "in-doubt",
            Self::BodyTooLarge => "body-too-large",
            Self::BodyTimeout => "body-timeout",
            Self::BodyBroken => "body-broken",
            Self::BodyEncoded => "body-encoded",
            Self::OtherProtocol => "other-protocol",
            Self::Streamed => "streamed",
            Self::HandlerFailed => "handler-failed",
            Self::RecordUnreadable => "record-unreadable",
            Self::StoreUnavailable => "store-unavailable",
            Self::Deadline => "deadline",
            Self::ShuttingDown => "shutting-down",
            Self::Busy => "busy",
        }
    }

    /// The response's status.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::KeyMissing | Self::KeyInvalid | Self::ScopeMissing | Self::BodyBroken => {
                StatusCode::BAD_REQUEST
            }
            Self::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::InProgress | Self::ResponseNotKept | Self::InDoubt => StatusCode::CONFLICT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::BodyEncoded | Self::OtherProtocol => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Streamed => StatusCode::NOT_IMPLEMENTED,
            Self::HandlerFailed | Self::RecordUnreadable => StatusCode::INTERNAL_SERVER_ERROR,
            Self::StoreUnavailable | Self::Deadline | Self::ShuttingDown | Self::Busy => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    /// How a request is counted that was answered so before it was handled, or would have been.
    pub(crate) const fn outcome(self) -> ExecutionKind {
        match self {
            Self::KeyMissing | Self::KeyInvalid | Self::ScopeMissing => ExecutionKind::Keyless,
            Self::BodyTooLarge
            | Self::BodyTimeout
            | Self::BodyBroken
            | Self::BodyEncoded
            | Self::OtherProtocol
            | Self::Streamed => ExecutionKind::Undecodable,
            Self::KeyReused => ExecutionKind::KeyReused,
            Self::InProgress => ExecutionKind::Conflict,
            Self::ResponseNotKept => ExecutionKind::Duplicate,
            Self::InDoubt => ExecutionKind::InDoubt,
            Self::HandlerFailed | Self::Deadline => ExecutionKind::Failed,
            Self::RecordUnreadable => ExecutionKind::RecordCorrupt,
            Self::StoreUnavailable => ExecutionKind::StoreUnavailable,
            Self::ShuttingDown | Self::Busy => ExecutionKind::Abandoned,
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::KeyMissing => "The request needs an idempotency key",
            Self::KeyInvalid => "The idempotency key cannot be used",
            Self::ScopeMissing => "It is not known who asks",
            Self::KeyReused => "The idempotency key was used for another request",
            Self::InProgress => "The first request with this key is under way",
            Self::ResponseNotKept => "The request was handled, and its response was not kept",
            Self::InDoubt => "It is not known whether the request was handled",
            Self::BodyTooLarge => "The request's body is too large",
            Self::BodyTimeout => "The request's body did not arrive in time",
            Self::BodyBroken => "The request's body broke off",
            Self::BodyEncoded => "The request's body is compressed",
            Self::OtherProtocol => "The request is of another protocol",
            Self::Streamed => "Streams are not handled",
            Self::HandlerFailed => "The request could not be handled",
            Self::RecordUnreadable => "The record of the request cannot be read",
            Self::StoreUnavailable => "It cannot be looked up whether the request was handled",
            Self::Deadline => "The request takes long and is still being handled",
            Self::ShuttingDown => "The service is about to end",
            Self::Busy => "The service is busy",
        }
    }
}

/// A problem with what there is to say about this request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) kind: ProblemKind,
    detail: String,
    pub(crate) retry_after: Option<Duration>,
}

impl Problem {
    pub(crate) fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            retry_after: None,
        }
    }

    /// Worth sending again after this much time.
    pub(crate) fn retry_after(self, wait: Duration) -> Self {
        Self {
            retry_after: Some(wait),
            ..self
        }
    }

    pub(crate) fn into_response(self) -> Response<Bytes> {
        let kind = self.kind;
        let body = json!({
            "type": format!("urn:idem:http:{}", kind.label()),
            "title": kind.title(),
            "status": kind.status().as_u16(),
            "detail": self.detail,
        });
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = kind.status();
        // For a layer outside of this one, which may be of another kind: it says nothing about the request for good.
        response.extensions_mut().insert(Remember::Failed);
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, whole_seconds(wait).into());
        }
        response
    }
}

/// The problem in one line, for people.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.title(), self.detail)
    }
}

impl From<KeyProblem> for Problem {
    fn from(problem: KeyProblem) -> Self {
        let kind = match problem {
            KeyProblem::Missing => ProblemKind::KeyMissing,
            _ => ProblemKind::KeyInvalid,
        };
        Self::new(kind, problem.detail())
    }
}

/// Rounded up, and a second at least: `Retry-After` counts in whole seconds, and 0 is no wait.
fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_rounded_up() {
        for (millis, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (30_000, 30)] {
            assert_eq!(
                whole_seconds(Duration::from_millis(millis)),
                seconds,
                "{millis}"
            );
        }
    }
}
