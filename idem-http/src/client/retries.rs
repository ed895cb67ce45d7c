//! When a request is sent again.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use tokio::time::{Instant, Sleep, sleep};
use tower::retry::Policy;

use crate::{
    key::IDEMPOTENCY_KEY,
    protocol::{GRPC_STATUS, is_grpc},
};

/// When a request with a key is sent again, as a policy of [`tower::retry`]: while nothing was told, or what was told
/// is that it is of use. Requests without a key, and those whose body cannot be cloned, are sent once.
///
/// | the answer | again |
/// |---|---|
/// | none: the connection fails | yes, later and later |
/// | 408, 425, 429, 502, 503, 504 | yes, later and later, and not before `Retry-After` |
/// | 409 and any other 4xx with `Retry-After` | yes, in the same way |
/// | 409 without it: the response was not kept, or a person has to decide | no |
/// | `ABORTED`, `UNAVAILABLE` of gRPC | yes, later and later, and not before `grpc-retry-pushback-ms` |
/// | all others | no |
///
/// All tries of a call share its `grpc-timeout`: each is told what is left of it, and none comes after it. What is
/// given up is logged, with its key.
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

    /// How long a request is sent again. A try that has begun is not cut off: that is a timeout's work, inside of
    /// this.
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { max_time, ..self }
    }

    /// The wait after the first try, if the answer asks for none. It doubles with each, up to the longest; half of it
    /// is left to chance.
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
        let backoff = self.backoff(tries).mul_f64(0.5 + chance / 2.0);
        // All who were told the same would come at once.
        let told = told.map(|told| told.saturating_add(told.mul_f64(chance / 10.0)));
        // Whoever answers may not know how often it was asked.
        let wait = told.unwrap_or_default().max(backoff);
        let end = tries.begun.elapsed().saturating_add(wait);
        let is_late = tries.timeout.is_some_and(|timeout| end >= timeout);
        (end <= self.max_time && !is_late).then_some(wait)
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
    /// How long its caller waits, all tries together: `grpc-timeout`.
    timeout: Option<Duration>,
}

impl Tries {
    pub(super) fn begin(headers: &HeaderMap) -> Self {
        Self {
            begun: Instant::now(),
            count: 0,
            timeout: timeout(headers),
        }
    }

    /// When its caller goes away, if that is known.
    pub(super) fn end(self) -> Option<Instant> {
        self.begun.checked_add(self.timeout?)
    }

    /// What is left of its caller's time after this wait.
    fn left_after(self, wait: Duration) -> Option<Duration> {
        let end = self.begun.elapsed().saturating_add(wait);
        Some(self.timeout?.saturating_sub(end))
    }
}

impl<B: Clone, R, E> Policy<Request<B>, Response<R>, E> for RetryPolicy {
    type Future = Sleep;

    fn retry(
        &mut self,
        next: &mut Request<B>,
        ended: &mut Result<Response<R>, E>,
    ) -> Option<Sleep> {
        let answer = ended.as_ref().ok().map(|it| (it.status(), it.headers()));
        let told = match answer.map(|(status, headers)| Answer::of(status, headers)) {
            Some(Answer::Final) => return None,
            Some(Answer::Again(told)) => told,
            None => None,
        };
        let begun = Tries::begin(next.headers());
        let tries = next.extensions_mut().get_or_insert(begun);
        tries.count = tries.count.saturating_add(1);
        let tries = *tries;
        let Some(wait) = self.wait(tries, told, fastrand::f64()) else {
            let status = answer.map(|(status, headers)| (status, headers.get(GRPC_STATUS)));
            let (path, key) = (next.uri().path(), next.headers().get(IDEMPOTENCY_KEY));
            tracing::warn!(
                path,
                ?key,
                ?status,
                tries = tries.count,
                "a request is given up, and may have had its effect: its key finds out"
            );
            return None;
        };
        if let Some(left) = tries.left_after(wait) {
            next.headers_mut().insert(GRPC_TIMEOUT, in_header(left));
        }
        tracing::debug!(tries = tries.count, ?wait, "a request is sent again");
        Some(sleep(wait))
    }

    fn clone_request(&mut self, request: &Request<B>) -> Option<Request<B>> {
        let mut next = has_key(request).then(|| request.clone())?;
        let begun = Tries::begin(next.headers());
        next.extensions_mut().get_or_insert(begun);
        Some(next)
    }
}

pub(super) fn has_key<B>(request: &Request<B>) -> bool {
    request.headers().contains_key(IDEMPOTENCY_KEY)
}

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// How long the caller of gRPC waits: at most 8 digits, and a unit.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let timeout = headers.get(GRPC_TIMEOUT).filter(|_| is_grpc(headers))?;
    let timeout = timeout.to_str().ok()?;
    let (count, unit) = timeout.split_at_checked(timeout.len().checked_sub(1)?)?;
    let count = count.parse::<u32>().ok()?.into();
    Some(match unit {
        "H" => Duration::from_secs(count) * 3600,
        "M" => Duration::from_secs(count) * 60,
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

/// The timeout as the header has it, as exact as 8 digits can be.
fn in_header(timeout: Duration) -> HeaderValue {
    const MOST: u128 = 99_999_999;
    let timeout = match (timeout.as_micros(), timeout.as_millis()) {
        (micros @ ..=MOST, _) => format!("{micros}u"),
        (_, millis @ ..=MOST) => format!("{millis}m"),
        _ => format!("{}S", u128::from(timeout.as_secs()).min(MOST)),
    };
    HeaderValue::from_str(&timeout).expect("digits and a letter are text")
}

/// What an answer says to who may send the request again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Final,
    /// Try again, after this time if the answer names one.
    Again(Option<Duration>),
}

impl Answer {
    fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        match headers.get(GRPC_STATUS).map(HeaderValue::as_bytes) {
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
        let wait = told.and_then(|told| wait_until(told.to_str().ok()?.trim()));
        match status.as_u16() {
            408 | 425 | 429 | 502..=504 => Self::Again(wait),
            400..=499 if told.is_some() => Self::Again(wait),
            _ => Self::Final,
        }
    }
}

/// `Retry-After`: a number of seconds, or a date.
fn wait_until(told: &str) -> Option<Duration> {
    if let Ok(seconds) = told.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(told).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
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
        assert_eq!(of(409, &[("retry-after", "tomorrow")]), Answer::Again(None));
        assert_eq!(
            of(409, &[("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")]),
            again(0)
        );
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        let headers = HeaderMap::from_iter([(header::RETRY_AFTER, date.parse().unwrap())]);
        let Answer::Again(Some(wait)) = Answer::of(StatusCode::CONFLICT, &headers) else {
            panic!("{date}");
        };
        assert!((90..=100).contains(&wait.as_secs()), "{wait:?}");
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
        let mut tries = Tries::begin(&HeaderMap::new());
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
        // Nobody comes sooner because it was told of a short wait.
        let late = Tries { count: 4, ..tries };
        let told = Some(Duration::from_millis(10));
        assert_eq!(
            policy.wait(late, told, 1.0),
            Some(Duration::from_millis(500))
        );
        // A wait that is asked for is kept, however long it is, and no other one fits into the time.
        let tries = Tries { count: 1, ..tries };
        let told = |secs| policy.wait(tries, Some(Duration::from_secs(secs)), 0.0);
        assert_eq!(told(20), Some(Duration::from_secs(20)));
        assert_eq!(told(21), None);
        tokio::time::advance(Duration::from_secs(15)).await;
        assert_eq!(told(6), None);
        assert_eq!(told(5), Some(Duration::from_secs(5)));
        assert_eq!(policy.wait(tries, Some(Duration::MAX), 1.0), None);
        // Its caller is gone by then, or not yet.
        let within = |secs| Tries {
            timeout: Some(Duration::from_secs(secs)),
            ..tries
        };
        let told = Some(Duration::from_secs(2));
        assert_eq!(policy.wait(within(17), told, 0.0), None);
        assert_eq!(policy.wait(within(18), told, 0.0), told);
    }

    #[test]
    fn the_time_of_a_caller_is_read_and_written() {
        let header = |value: &str| {
            let kind = (header::CONTENT_TYPE, "application/grpc".parse().unwrap());
            HeaderMap::from_iter([kind, (GRPC_TIMEOUT, value.parse().unwrap())])
        };
        for (sent, millis, again) in [
            ("1H", 3_600_000, "3600000m"),
            ("2M", 120_000, "120000m"),
            ("3S", 3000, "3000000u"),
            ("99999999m", 99_999_999, "99999999m"),
            ("500000u", 500, "500000u"),
            ("5000000n", 5, "5000u"),
            ("99999999S", 99_999_999_000, "99999999S"),
        ] {
            let read = timeout(&header(sent));
            assert_eq!(read, Some(Duration::from_millis(millis)), "{sent}");
            assert_eq!(in_header(read.unwrap()), again, "{sent}");
        }
        for none in ["", "S", "1", "-1S", "1.5S", "1x"] {
            assert_eq!(timeout(&header(none)), None, "{none}");
        }
        let mut of_http = header("1S");
        of_http.remove(header::CONTENT_TYPE);
        assert_eq!(timeout(&of_http), None);
    }
}
