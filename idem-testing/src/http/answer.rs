//! What a client was answered.

use std::time::Duration;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, Response, StatusCode,
    header::{CONTENT_TYPE, DATE, RETRY_AFTER, SET_COOKIE},
};
use idem_core::executor::ExecutionKind;
use serde_json::Value;

/// What a client was answered: a response that is there as a whole, or none, because the service failed or the response
/// broke off.
#[derive(Debug, Clone)]
pub struct Answer(Result<Response<Bytes>, String>);

const REPLAYED: &str = "idempotency-replayed";
/// They need not be the same for the first and for a copy.
const PASSING: [HeaderName; 4] = [
    DATE,
    SET_COOKIE,
    HeaderName::from_static(REPLAYED),
    HeaderName::from_static("idempotency-retention"),
];
const PROBLEM: &str = "application/problem+json";
const PROBLEMS: &str = "urn:idem:http:";
/// Where nobody says when to come again.
const LATER: Duration = Duration::from_secs(1);

impl Answer {
    pub(super) fn new(response: Result<Response<Bytes>, String>) -> Self {
        Self(response)
    }

    /// The response.
    ///
    /// # Panics
    /// If there is none.
    pub fn response(&self) -> &Response<Bytes> {
        match &self.0 {
            Ok(response) => response,
            Err(error) => panic!("there is no response: {error}"),
        }
    }

    /// Its status.
    ///
    /// # Panics
    /// If there is no response.
    pub fn status(&self) -> StatusCode {
        self.response().status()
    }

    /// Its body as JSON.
    ///
    /// # Panics
    /// If there is no response, or it is not JSON.
    pub fn json(&self) -> Value {
        let body = self.response().body();
        let json = serde_json::from_slice(body);
        json.unwrap_or_else(|error| panic!("the body is not JSON: {error}: {}", text(body)))
    }

    /// Whether it is the response to an earlier request with this key, and the handler did not run.
    pub fn is_replay(&self) -> bool {
        let replayed = self.headers().and_then(|headers| headers.get(REPLAYED));
        replayed.is_some_and(|value| value == "true")
    }

    /// The layer's own word, if the layer has answered: the last part of the problem's `type`, `key-reused` for
    /// example.
    pub fn problem(&self) -> Option<String> {
        let response = self.0.as_ref().ok()?;
        if response.headers().get(CONTENT_TYPE)? != PROBLEM {
            return None;
        }
        let problem: Value = serde_json::from_slice(response.body()).ok()?;
        let kind = problem["type"].as_str()?.strip_prefix(PROBLEMS)?;
        Some(kind.to_owned())
    }

    /// Why there is no response, if there is none.
    pub fn error(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }

    fn headers(&self) -> Option<&HeaderMap> {
        self.0.as_ref().ok().map(Response::headers)
    }

    /// How its request has ended, as the engine calls it.
    pub(super) fn kind(&self) -> ExecutionKind {
        use ExecutionKind as Kind;
        let Ok(response) = &self.0 else {
            return Kind::Failed;
        };
        match self.problem().as_deref() {
            Some("key-reused") => Kind::KeyReused,
            Some("in-doubt") => Kind::InDoubt,
            Some("in-progress") => Kind::Conflict,
            Some("response-not-kept") => Kind::Duplicate,
            Some("store-unavailable") => Kind::StoreUnavailable,
            Some("key-missing" | "key-invalid" | "scope-missing") => Kind::Keyless,
            Some(_) => Kind::Failed,
            None if self.is_replay() => Kind::Duplicate,
            None if self.comes_again().is_some() => Kind::Failed,
            None if response.status().is_client_error() => Kind::Refused,
            None => Kind::Executed,
        }
    }

    /// After which time a client sends the request again, if that is of use.
    pub(super) fn comes_again(&self) -> Option<Duration> {
        let Ok(response) = &self.0 else {
            return Some(LATER);
        };
        if let Some(wait) = response.headers().get(RETRY_AFTER) {
            let seconds = wait.to_str().ok().and_then(|wait| wait.parse().ok());
            return Some(seconds.map_or(LATER, Duration::from_secs));
        }
        let status = response.status();
        let passes = status.is_server_error() || matches!(status.as_u16(), 408 | 423 | 425 | 429);
        passes.then_some(LATER)
    }

    /// Whether a copy may be answered so whose first was answered like this.
    pub(super) fn is_like(&self, copy: &Self) -> bool {
        let (Ok(first), Ok(again)) = (&self.0, &copy.0) else {
            return false;
        };
        let lasting = |response: &Response<Bytes>| {
            let mut headers = response.headers().clone();
            for name in PASSING {
                headers.remove(name);
            }
            (response.status(), headers, response.body().clone())
        };
        copy.problem().as_deref() == Some("response-not-kept") || lasting(first) == lasting(again)
    }

    /// In one line.
    pub(super) fn in_words(&self) -> String {
        match &self.0 {
            Ok(response) => format!("{} {}", response.status(), text(response.body())),
            Err(error) => error.clone(),
        }
    }
}

fn text(body: &Bytes) -> String {
    String::from_utf8_lossy(body).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let response = response.body(Bytes::copy_from_slice(body.as_bytes()));
        Answer::new(Ok(response.expect("a response")))
    }

    #[test]
    fn an_answer_says_how_its_request_has_ended_and_whether_it_comes_again() {
        use ExecutionKind as Kind;
        let problem = |status, kind: &str| {
            let body = format!(r#"{{"type":"{PROBLEMS}{kind}"}}"#);
            answer(status, &[("content-type", PROBLEM)], &body)
        };
        let second = Some(LATER);
        for (answer, kind, again) in [
            (answer(201, &[], ""), Kind::Executed, None),
            (
                answer(201, &[(REPLAYED, "true")], ""),
                Kind::Duplicate,
                None,
            ),
            (
                answer(422, &[(REPLAYED, "true")], ""),
                Kind::Duplicate,
                None,
            ),
            (answer(422, &[], ""), Kind::Refused, None),
            (
                answer(422, &[("retry-after", "1")], ""),
                Kind::Failed,
                second,
            ),
            (answer(429, &[], ""), Kind::Failed, second),
            (answer(500, &[], ""), Kind::Failed, second),
            (Answer::new(Err("gone".into())), Kind::Failed, second),
            (problem(422, "key-reused"), Kind::KeyReused, None),
            (problem(409, "in-doubt"), Kind::InDoubt, None),
            (problem(409, "response-not-kept"), Kind::Duplicate, None),
            (problem(400, "key-missing"), Kind::Keyless, None),
            (
                problem(503, "store-unavailable"),
                Kind::StoreUnavailable,
                second,
            ),
        ] {
            assert_eq!(
                (answer.kind(), answer.comes_again()),
                (kind, again),
                "{answer:?}"
            );
        }
    }

    #[test]
    fn a_copy_is_answered_like_the_first_but_for_what_passes() {
        let first = answer(201, &[("location", "/1"), ("date", "now")], "a");
        for (copy, is_like) in [
            (
                answer(201, &[("location", "/1"), (REPLAYED, "true")], "a"),
                true,
            ),
            (answer(201, &[("location", "/2")], "a"), false),
            (answer(201, &[("location", "/1")], "b"), false),
            (answer(200, &[("location", "/1")], "a"), false),
        ] {
            assert_eq!(first.is_like(&copy), is_like, "{copy:?}");
        }
    }
}
