//! Statuses: what those of handlers mean, and those that are the layer's own.

use std::{collections::HashMap, time::Duration};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Response};
use prost::Message as _;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{
    problem::{Problem, ProblemKind},
    remember::Remember,
};

/// How many milliseconds a client is to wait before it sends the call again:
/// [A6](https://github.com/grpc/proposal/blob/master/A6-client-retries.md).
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Whose reasons they are, in `ErrorInfo`.
const DOMAIN: &str = "idem";

impl Remember {
    /// Done if `OK`; refused for good if the same call cannot do better later: `INVALID_ARGUMENT`, `NOT_FOUND`,
    /// `ALREADY_EXISTS`, `PERMISSION_DENIED`, `FAILED_PRECONDITION` and `OUT_OF_RANGE`. All others have failed.
    pub fn by_code(code: Code) -> Self {
        match code {
            Code::Ok => Self::Done,
            Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::OutOfRange => Self::Refused,
            // Of the moment, too: a client with a new token has the same key (`UNAUTHENTICATED`), and a newer instance
            // has the method (`UNIMPLEMENTED`).
            _ => Self::Failed,
        }
    }
}

/// Whether these headers or trailers have a status.
pub(super) fn is_in(headers: &HeaderMap) -> bool {
    headers.contains_key(Status::GRPC_STATUS)
}

/// `Unknown` if there is none.
pub(super) fn code(headers: &HeaderMap) -> Code {
    let code = headers.get(Status::GRPC_STATUS);
    code.map_or(Code::Unknown, |code| Code::from_bytes(code.as_bytes()))
}

/// Whether the client is told to come again.
pub(super) fn comes_again(headers: &HeaderMap) -> bool {
    has_pushback(headers) || has_retry_info(headers).unwrap_or(false)
}

/// Whatever is no number of milliseconds, or a negative one, asks not to come again.
fn has_pushback(headers: &HeaderMap) -> bool {
    let pushback = headers.get(PUSHBACK).and_then(|it| it.to_str().ok());
    pushback.is_some_and(|it| it.parse::<u32>().is_ok())
}

fn has_retry_info(headers: &HeaderMap) -> Option<bool> {
    let any_padding =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let base64 = GeneralPurpose::new(&alphabet::STANDARD, any_padding);
    let details = headers.get(Status::GRPC_STATUS_DETAILS)?;
    let details = base64.decode(details.as_bytes()).ok()?;
    let status = tonic_types::Status::decode(&*details).ok()?;
    let mut types = status.details.iter().map(|any| &any.type_url);
    Some(types.any(|it| it.ends_with("/google.rpc.RetryInfo")))
}

/// The layer's own status, as a response without a message.
pub(super) fn tell(problem: &Problem) -> Response<Bytes> {
    let reason = problem.kind.label().replace('-', "_").to_uppercase();
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new());
    if problem.retry_after.is_some() {
        details.set_retry_info(problem.retry_after);
    }
    let status = Status::with_error_details(code_of(problem.kind), problem.to_string(), details);
    let mut response = status.into_http::<Bytes>();
    if let Some(wait) = problem.retry_after {
        response.headers_mut().insert(PUSHBACK, millis(wait).into());
    }
    // For a layer outside of this one: it says nothing about the call for good.
    response.extensions_mut().insert(Remember::Failed);
    response
}

fn millis(wait: Duration) -> u64 {
    // A client takes what is no number of 32 bits for a word not to come again.
    const LONGEST: Duration = Duration::from_hours(24);
    wait.min(LONGEST).as_millis().try_into().unwrap_or(u64::MAX)
}

fn code_of(kind: ProblemKind) -> Code {
    match kind {
        ProblemKind::KeyMissing
        | ProblemKind::KeyInvalid
        | ProblemKind::ScopeMissing
        | ProblemKind::KeyReused
        | ProblemKind::BodyBroken => Code::InvalidArgument,
        ProblemKind::InProgress | ProblemKind::Deadline => Code::Aborted,
        // No client takes it for a word that nothing has happened.
        ProblemKind::ResponseNotKept => Code::AlreadyExists,
        ProblemKind::InDoubt => Code::FailedPrecondition,
        ProblemKind::BodyTooLarge => Code::ResourceExhausted,
        ProblemKind::BodyTimeout => Code::DeadlineExceeded,
        ProblemKind::BodyEncoded | ProblemKind::Streamed | ProblemKind::OtherProtocol => {
            Code::Unimplemented
        }
        ProblemKind::HandlerFailed => Code::Internal,
        ProblemKind::RecordUnreadable => Code::DataLoss,
        ProblemKind::StoreUnavailable | ProblemKind::ShuttingDown | ProblemKind::Busy => {
            Code::Unavailable
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_says_what_is_remembered() {
        use Remember::{Done, Failed, Refused};
        let expected = [
            Done, Failed, Failed, Refused, Failed, Refused, Refused, Refused, Failed, Refused,
            Failed, Refused, Failed, Failed, Failed, Failed, Failed,
        ];
        for (code, expected) in expected.into_iter().enumerate() {
            let code = Code::from_i32(code.try_into().unwrap());
            assert_eq!(Remember::by_code(code), expected, "{code:?}");
        }
    }

    #[test]
    fn every_problem_has_its_code() {
        use ProblemKind as Kind;
        for (kind, code, reason) in [
            (Kind::KeyMissing, Code::InvalidArgument, "KEY_MISSING"),
            (Kind::KeyInvalid, Code::InvalidArgument, "KEY_INVALID"),
            (Kind::ScopeMissing, Code::InvalidArgument, "SCOPE_MISSING"),
            (Kind::KeyReused, Code::InvalidArgument, "KEY_REUSED"),
            (Kind::BodyBroken, Code::InvalidArgument, "BODY_BROKEN"),
            (Kind::InProgress, Code::Aborted, "IN_PROGRESS"),
            (Kind::Deadline, Code::Aborted, "DEADLINE"),
            (
                Kind::ResponseNotKept,
                Code::AlreadyExists,
                "RESPONSE_NOT_KEPT",
            ),
            (Kind::InDoubt, Code::FailedPrecondition, "IN_DOUBT"),
            (
                Kind::BodyTooLarge,
                Code::ResourceExhausted,
                "BODY_TOO_LARGE",
            ),
            (Kind::BodyTimeout, Code::DeadlineExceeded, "BODY_TIMEOUT"),
            (Kind::BodyEncoded, Code::Unimplemented, "BODY_ENCODED"),
            (Kind::Streamed, Code::Unimplemented, "STREAMED"),
            (Kind::OtherProtocol, Code::Unimplemented, "OTHER_PROTOCOL"),
            (Kind::HandlerFailed, Code::Internal, "HANDLER_FAILED"),
            (Kind::RecordUnreadable, Code::DataLoss, "RECORD_UNREADABLE"),
            (
                Kind::StoreUnavailable,
                Code::Unavailable,
                "STORE_UNAVAILABLE",
            ),
            (Kind::ShuttingDown, Code::Unavailable, "SHUTTING_DOWN"),
            (Kind::Busy, Code::Unavailable, "BUSY"),
        ] {
            let told = tell(&Problem::new(kind, "a detail"));
            assert_eq!(
                (told.status(), told.body().len()),
                (http::StatusCode::OK, 0)
            );
            let status = Status::from_header_map(told.headers()).unwrap();
            assert_eq!(status.code(), code, "{kind:?}");
            assert!(status.message().ends_with(": a detail"), "{status:?}");
            let info = status.get_details_error_info().unwrap();
            assert_eq!((&*info.reason, &*info.domain), (reason, "idem"));
            assert!(!comes_again(told.headers()), "{status:?}");
        }
    }

    #[test]
    fn a_word_not_to_come_again_is_none_to_come_again() {
        for (pushback, again) in [("0", true), ("1500", true), ("-1", false), ("", false)] {
            let headers = HeaderMap::from_iter([(PUSHBACK, pushback.parse().unwrap())]);
            assert_eq!(comes_again(&headers), again, "{pushback}");
        }
    }

    #[test]
    fn a_client_is_told_when_to_come_again() {
        let wait = Duration::from_millis(1500);
        for (wait, pushback) in [(wait, "1500"), (Duration::MAX, "86400000")] {
            let problem = Problem::new(ProblemKind::InProgress, "a detail").retry_after(wait);
            let mut told = tell(&problem).into_parts().0.headers;
            assert_eq!(told[PUSHBACK], pushback);
            told.remove(PUSHBACK);
            assert!(comes_again(&told), "{told:?}");
            let status = Status::from_header_map(&told).unwrap();
            assert!(
                status
                    .get_details_retry_info()
                    .unwrap()
                    .retry_delay
                    .is_some()
            );
        }
    }
}
