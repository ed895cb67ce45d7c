//! When a request is sent again.

use std::time::Duration;

use http::{HeaderMap, HeaderName, Request, Response, StatusCode, header};
use tokio::time::{Instant, Sleep, sleep};
use tower::retry::Policy;

use crate::key::IDEMPOTENCY_KEY;

/// When a request with a key is sent again, as a policy of [`tower::retry`]: while nothing was told, or what was told is that it is of
/// use. Requests without a key, and those whose body cannot be cloned, are sent once.
///
/// | the answer | again |
/// |---|---|
/// | none: the connection fails | yes, later and later |
/// | 408, 425, 429, 502, 503, 504 | yes, after `Retry-After`, or later and later |
/// | 409 and any other 4xx with `Retry-After` | yes, after that |
/// | 409 without it: the response was not kept, or a person has to decide | no |
/// | `ABORTED`, `UNAVAILABLE` of gRPC | yes, after `grpc-retry-pushback-ms`, or later and later |
/// | all others | no |
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    max_tries: u32,
    max_time: Duration,
    first_wait: Duration,
    longest_wait: Duration,
}

impl RetryPolicy {
    /// 10 tries within a minute. The first wait is 100 ms, and the longest 10 s, unless a longer one is asked for.
    pub fn new() -> Self {
        Self {
            max_tries: 10,
            max_time: Duration::from_mins(1),
            first_wait: Duration::from_millis(100),
            longest_wait: Duration::from_secs(10),
        }
    }

    /// How often a request is sent in all.
    pub fn max_tries(self, max_tries: u32) -> Self {
        Self { max_tries, ..self }
    }

    /// For how long a request is sent again. A try that has begun is not cut off: that is a timeout's work, inside of this.
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { max_time, ..self }
    }

    /// The wait after the first try, if the answer asks for none. It doubles with each, up to the longest; half of it is left
    /// to chance.
    pub fn waits(self, first: Duration, longest: Duration) -> Self {
        Self {
            first_wait: first,
            longest_wait: longest,
            ..self
        }
    }

    /// The wait before the next try, if there is one. `told` is what the answer asks for.
    fn wait(&self, tries: Tries, told: Option<Duration>, chance: f64) -> Option<Duration> {
        if tries.count >= self.max_tries {
            return None;
        }
        let wait = told.map_or_else(
            || self.backoff(tries).mul_f64(0.5 + chance / 2.0),
            // All who were told the same would come at once.
            |told| told.saturating_add(told.mul_f64(chance / 10.0)),
        );
        let end = tries.begun.elapsed().saturating_add(wait);
        (end <= self.max_time).then_some(wait)
    }

    fn backoff(&self, tries: Tries) -> Duration {
        let doubled = 2_u32.saturating_pow(tries.count.saturating_sub(1));
        let full = self.first_wait.saturating_mul(doubled);
        full.min(self.longest_wait)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}

/// How often a request was sent, and since when. It goes with the request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tries {
    begun: Instant,
    count: u32,
}

impl Tries {
    pub(super) fn begin() -> Self {
        Self {
            begun: Instant::now(),
            count: 0,
        }
    }
}

impl<B: Clone, R, E> Policy<Request<B>, Response<R>, E> for RetryPolicy {
    type Future = Sleep;

    fn retry(
        &mut self,
        next: &mut Request<B>,
        ended: &mut Result<Response<R>, E>,
    ) -> Option<Sleep> {
        let told = match ended {
            Ok(response) => match Answer::of(response.status(), response.headers()) {
                Answer::Final => return None,
                Answer::Again(told) => told,
            },
            Err(_) => None,
        };
        let tries = next.extensions_mut().get_or_insert_with(Tries::begin);
        tries.count = tries.count.saturating_add(1);
        let wait = self.wait(*tries, told, fastrand::f64())?;
        tracing::debug!(tries = tries.count, ?wait, "a request is sent again");
        Some(sleep(wait))
    }

    fn clone_request(&mut self, request: &Request<B>) -> Option<Request<B>> {
        has_key(request).then(|| request.clone())
    }
}

pub(super) fn has_key<B>(request: &Request<B>) -> bool {
    request.headers().contains_key(IDEMPOTENCY_KEY)
}

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// What an answer says to who may send the request again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Final,
    /// After so long, if it says.
    Again(Option<Duration>),
}

impl Answer {
    fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        match headers.get(GRPC_STATUS).map(http::HeaderValue::as_bytes) {
            // ABORTED and UNAVAILABLE.
            Some(b"10" | b"14") => Self::of_grpc(headers),
            Some(_) => Self::Final,
            None => Self::of_http(status, headers),
        }
    }

    fn of_grpc(headers: &HeaderMap) -> Self {
        let Some(pushback) = headers.get(PUSHBACK) else {
            return Self::Again(None);
        };
        // Whatever is no number of milliseconds asks not to come again.
        let millis = pushback
            .to_str()
            .ok()
            .and_then(|text| text.parse::<u32>().ok());
        millis.map_or(Self::Final, |millis| {
            Self::Again(Some(Duration::from_millis(millis.into())))
        })
    }

    fn of_http(status: StatusCode, headers: &HeaderMap) -> Self {
        let told = headers.get(header::RETRY_AFTER);
        // A date is as good as none.
        let wait = told.and_then(|told| told.to_str().ok()?.trim().parse().ok());
        match status.as_u16() {
            408 | 425 | 429 | 502..=504 => Self::Again(wait.map(Duration::from_secs)),
            400..=499 if told.is_some() => Self::Again(wait.map(Duration::from_secs)),
            _ => Self::Final,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, headers: &[(&'static str, &'static str)]) -> Answer {
        let headers = headers.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, http::HeaderValue::from_static(value))
        });
        Answer::of(StatusCode::from_u16(status).unwrap(), &headers.collect())
    }

    #[test]
    fn an_answer_says_whether_to_come_again() {
        let again = |millis| Answer::Again(Some(Duration::from_millis(millis)));
        for status in [
            200, 201, 303, 400, 401, 403, 404, 409, 413, 415, 422, 500, 501,
        ] {
            assert_eq!(of(status, &[]), Answer::Final, "{status}");
        }
        for status in [408, 425, 429, 502, 503, 504] {
            assert_eq!(of(status, &[]), Answer::Again(None), "{status}");
            assert_eq!(of(status, &[("retry-after", "2")]), again(2000), "{status}");
        }
        assert_eq!(of(409, &[("retry-after", "30")]), again(30_000));
        let date = ("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT");
        assert_eq!(of(409, &[date]), Answer::Again(None));
        assert_eq!(of(201, &[("retry-after", "30")]), Answer::Final);
        for code in [
            "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "11", "12", "13", "15", "16",
        ] {
            assert_eq!(of(200, &[("grpc-status", code)]), Answer::Final, "{code}");
        }
        for code in ["10", "14"] {
            let of = |pushback| {
                of(
                    200,
                    &[("grpc-status", code), ("grpc-retry-pushback-ms", pushback)],
                )
            };
            assert_eq!(of("1500"), again(1500));
            assert_eq!(of("-1"), Answer::Final);
        }
        assert_eq!(of(200, &[("grpc-status", "14")]), Answer::Again(None));
    }

    #[tokio::test(start_paused = true)]
    async fn waits_grow_and_end() {
        let policy = RetryPolicy::new()
            .max_tries(6)
            .max_time(Duration::from_secs(20));
        let policy = policy.waits(Duration::from_millis(100), Duration::from_millis(500));
        let mut tries = Tries::begin();
        let mut waits = Vec::new();
        loop {
            tries.count += 1;
            let Some(wait) = policy.wait(tries, None, 1.0) else {
                break;
            };
            assert_eq!(policy.wait(tries, None, 0.0), Some(wait / 2));
            waits.push(wait.as_millis());
        }
        assert_eq!(waits, [100, 200, 400, 500, 500]);
        // A wait that is asked for is kept, however long it is, and no other one fits into the time.
        let tries = Tries { count: 1, ..tries };
        let told = |secs| policy.wait(tries, Some(Duration::from_secs(secs)), 0.0);
        assert_eq!(told(20), Some(Duration::from_secs(20)));
        assert_eq!(told(21), None);
        tokio::time::advance(Duration::from_secs(15)).await;
        assert_eq!(told(6), None);
        assert_eq!(told(5), Some(Duration::from_secs(5)));
        assert_eq!(policy.wait(tries, Some(Duration::MAX), 1.0), None);
    }
}
