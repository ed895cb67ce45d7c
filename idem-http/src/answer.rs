//! What a client is told of how its request ended.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use idem_core::{Execution, Key, Outcome, executor::Cause, handler::Answer as Known};

use crate::{
    endpoint::{Live, Unsuccessful},
    problem::{FAILED, Problem, ProblemKind},
    protocol::Protocol,
    remembered::{Recalled, Remembered},
    response_body::ResponseBody,
};

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// How many seconds the request is remembered.
const RETENTION: HeaderName = HeaderName::from_static("idempotency-retention");

/// How long a client is asked to wait if nobody knows better, and at least while its request is under way.
pub(crate) const A_WHILE: Duration = Duration::from_secs(1);

/// The answer to a request that ended so. `live` is what its handler has answered, if it ran; `retention` for how long
/// that is remembered, if it is; `wait` for how long copies wait.
pub(crate) fn answer<B, E>(
    ended: Execution<Remembered, Unsuccessful>,
    live: Option<Live<B, E>>,
    key: Option<&Key>,
    retention: Option<Duration>,
    wait: Duration,
    protocol: &dyn Protocol,
) -> Live<B, E> {
    let tell = |problem| Ok(ResponseBody::whole(protocol.tell(problem)));
    let unanswered = || tell(Problem::new(ProblemKind::HandlerFailed, FAILED));
    let named = key.map_or("none", Key::as_str);
    let problem = match ended {
        Execution::Executed { .. } | Execution::Refused { .. } => {
            return live.map_or_else(unanswered, |live| kept_for(live, retention));
        }
        Execution::Unprotected { .. }
        | Execution::Observed { .. }
        | Execution::Unclaimed { .. }
        | Execution::Failed {
            cause: Cause::Error(_),
            ..
        } => return live.unwrap_or_else(unanswered),
        Execution::Failed { cause, attempt, .. } => {
            tracing::error!(key = named, attempt, %cause, "a request could not be handled");
            Problem::new(ProblemKind::HandlerFailed, FAILED)
        }
        Execution::Duplicate { outcome, remaining } => match recall(&outcome) {
            Ok((mut response, trailers)) => {
                let headers = response.headers_mut();
                headers.insert(REPLAYED, HeaderValue::from_static("true"));
                headers.insert(RETENTION, remaining.as_secs().into());
                return Ok(ResponseBody::with_trailers(response, trailers));
            }
            Err(problem) => problem,
        },
        Execution::Conflict { remaining } => in_progress(remaining.min(wait)),
        // Its response counts for nothing: another request has the key by now.
        Execution::LeaseLost { attempt } => {
            tracing::warn!(
                key = named,
                attempt,
                "a request lost its lease: another one has its key"
            );
            in_progress(A_WHILE)
        }
        Execution::KeyReused => {
            let detail =
                "send another key with another request, and the same request with the same key";
            Problem::new(ProblemKind::KeyReused, detail)
        }
        Execution::InDoubt { error, .. } => Problem::new(ProblemKind::InDoubt, error),
        Execution::StoreUnavailable { error } => {
            tracing::warn!(key = named, %error, "a request was not handled: the store cannot be asked");
            let detail = "this copy has done nothing; whether an earlier one was handled cannot be looked up: send it again, with the same key";
            Problem::new(ProblemKind::StoreUnavailable, detail).retry_after(A_WHILE)
        }
        Execution::RecordCorrupt { error } => {
            tracing::error!(key = named, %error, "a request was not handled: the record of its key cannot be read");
            let detail = "its record is of another version of the service, or damaged";
            Problem::new(ProblemKind::RecordUnreadable, detail)
        }
        Execution::Abandoned => {
            let detail = "this copy has done nothing; send the request again, with the same key";
            Problem::new(ProblemKind::ShuttingDown, detail).retry_after(A_WHILE)
        }
        other => {
            let error = other.error().unwrap_or_default();
            tracing::error!(key = named, kind = %other.kind(), error, "a request could not be handled");
            Problem::new(ProblemKind::HandlerFailed, FAILED)
        }
    };
    tell(problem)
}

/// What the handler has answered, if that is remembered for so long.
fn kept_for<B, E>(live: Live<B, E>, retention: Option<Duration>) -> Live<B, E> {
    let mut response = live?;
    if let Some(retention) = retention {
        let headers = response.headers_mut();
        headers.insert(RETENTION, retention.as_secs().into());
    }
    Ok(response)
}

/// The first may end long before its lease does, so nobody is told to wait for longer than its copies do.
fn in_progress(remaining: Duration) -> Problem {
    let detail = "send the request again later, with the same key, to get its response";
    Problem::new(ProblemKind::InProgress, detail).retry_after(remaining.max(A_WHILE))
}

/// The response that was remembered, or what is told instead of it.
fn recall(outcome: &Outcome) -> Result<(Response<Bytes>, HeaderMap), Problem> {
    let not_kept = |detail: String| Problem::new(ProblemKind::ResponseNotKept, detail);
    let recalled = match outcome.answer() {
        Known::Output(json) => Recalled::of(json),
        Known::Rejected(refusal) => {
            let response = refusal.error().map(serde_json::Value::to_string);
            response.and_then(|json| Recalled::of(json.as_bytes()))
        }
        _ => None,
    };
    match recalled {
        Some(Recalled::Response(response, trailers)) => Ok((response, trailers)),
        Some(Recalled::WithoutResponse(status)) => Err(not_kept(format!(
            "it was answered with {status}; it is not handled again under this key"
        ))),
        None => Err(not_kept(
            "what was remembered of it cannot be read; it is not handled again under this key"
                .into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_told_to_come_again_at_once() {
        for (remaining, wait) in [(0, 1000), (999, 1000), (1500, 1500)] {
            let told = in_progress(Duration::from_millis(remaining));
            assert_eq!(told.retry_after, Some(Duration::from_millis(wait)));
        }
    }
}
