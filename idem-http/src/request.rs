//! A request as it has arrived: its key, its content, and what of it is compared with others of that key.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderName, Request, Uri, header, request::Parts};
use idem_core::{
    Envelope, Key,
    executor::ExecutionKind,
    handler::DecodeError,
    message::{Fingerprint, KeyError},
    store::Owner,
};
use tokio::time::timeout;

use crate::{
    key::{self, IDEMPOTENCY_KEY, KeyProblem},
    problem::{FAILED, Problem, ProblemKind},
    reading::{Read, read_into},
    rules::{KeyRule, Rules},
    wrapped_service::RequestBody,
};

/// Headers that make another request of one, and are compared where there are any.
const CONDITIONS: [HeaderName; 5] = [
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::CONTENT_RANGE,
    header::CONTENT_ENCODING,
];

/// A request that may be handled.
pub(crate) struct Arrived<B> {
    /// The head of the request, until it is handed on for the last time.
    parts: Mutex<Option<Parts>>,
    body: Source<B>,
    /// `None` if it has none, and runs all the same.
    pub(crate) key: Option<Key>,
    pub(crate) fingerprint: Option<Fingerprint>,
    /// How long its body may hold a transaction; `None` if none is lent.
    pub(crate) body_timeout: Option<Duration>,
    /// How it would have ended before anything was claimed, if its layer did not only observe.
    pub(crate) refused: Option<ExecutionKind>,
}

enum Source<B> {
    Whole(Bytes),
    /// The body as it comes, until it is handed on.
    Stream(Mutex<Option<B>>),
    /// It broke off.
    Gone,
}

impl<B: RequestBody> Arrived<B> {
    /// Looks for the request's key and reads its body. Nothing is recorded by now.
    ///
    /// What a layer that only observes would refuse is a request all the same, unless its body broke off.
    pub(crate) async fn read(request: Request<B>, rules: &Rules) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let mut body = Source::stream(body);
        let (key, fingerprint, refused) = match known(&parts, &mut body, rules).await {
            Ok((key, fingerprint)) => (key, Some(fingerprint), None),
            Err(problem) if rules.only_observe() && !body.is_gone() => {
                (None, None, Some(problem.kind.outcome()))
            }
            Err(problem) => return Err(problem),
        };
        Ok(Self {
            parts: Mutex::new(Some(parts)),
            body,
            key,
            fingerprint,
            body_timeout: None,
            refused,
        })
    }

    /// One of another protocol, which runs because its layer only observes.
    pub(crate) fn unread(request: Request<B>) -> Self {
        let (parts, body) = request.into_parts();
        Self {
            parts: Mutex::new(Some(parts)),
            body: Source::stream(body),
            key: None,
            fingerprint: None,
            body_timeout: None,
            refused: Some(ProblemKind::OtherProtocol.outcome()),
        }
    }

    /// Whether its body was read, so that it can be handed on more than once.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.body, Source::Whole(_))
    }

    /// The path as the client sent it. The head must not have been handed on.
    pub(crate) fn path(&mut self) -> String {
        let parts = self.parts.get_mut().unwrap_or_else(PoisonError::into_inner);
        let parts = parts.as_ref().map(uri);
        parts.map_or_else(String::new, |uri| uri.path().to_owned())
    }

    /// Gives a request without a key one that no other has: what runs in a transaction cannot run without a claim.
    pub(crate) fn claim_anything(&mut self, rules: &Rules) {
        let random = u128::from_be_bytes(*Owner::new().as_bytes());
        let key = Key::new(&rules.name, format!("unkeyed-{random:032x}"));
        self.key = Some(key.expect("the name is a scope, and the rest is short"));
    }

    pub(crate) fn into_envelope(self) -> Envelope {
        // Somebody waits for the answer, so a refusal is remembered and told again.
        let envelope = Envelope::builder(Bytes::new()).expects_reply(true);
        envelope.extension(self).build()
    }

    /// The request for the handler, which `runs_again` if it may be asked for once more.
    pub(crate) fn of(envelope: &Envelope, runs_again: bool) -> Result<Request<B>, DecodeError> {
        let arrived = Self::in_envelope(envelope);
        let gone = |what| DecodeError::new(format!("its {what} was handed on, and is gone"));
        let parts = {
            let mut parts = arrived.parts.lock().unwrap_or_else(PoisonError::into_inner);
            if runs_again {
                parts.clone()
            } else {
                parts.take()
            }
        };
        let body = match &arrived.body {
            Source::Whole(bytes) => B::whole(bytes.clone()),
            Source::Stream(body) => {
                let body = body.lock().unwrap_or_else(PoisonError::into_inner).take();
                let body = body.ok_or_else(|| gone("body"))?;
                match arrived.body_timeout {
                    Some(timeout) => body.within(timeout),
                    None => body,
                }
            }
            Source::Gone => return Err(gone("body")),
        };
        Ok(Request::from_parts(
            parts.ok_or_else(|| gone("head"))?,
            body,
        ))
    }

    pub(crate) fn in_envelope(envelope: &Envelope) -> &Self {
        let arrived = envelope.extension();
        arrived.expect("each envelope of this crate is of a request")
    }
}

/// What a function of the service says. A panic of it must not close the connection, on which other requests may be
/// under way.
fn caught<T>(said: impl FnOnce() -> T) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(said)).map_err(|_| {
        tracing::error!("a request was not handled: what looks for its scope or its key panicked");
        Problem::new(ProblemKind::HandlerFailed, FAILED)
    })
}

/// The key that a request has sent, under the scope of who asks.
fn find_key(
    sent: Result<String, KeyProblem>,
    parts: &Parts,
    rules: &Rules,
) -> Result<Option<Key>, Problem> {
    let sent = match sent {
        Ok(sent) => sent,
        Err(KeyProblem::Missing) if rules.key == KeyRule::Optional => return Ok(None),
        Err(problem) => return Err(problem.into()),
    };
    let mut key = Key::builder(&rules.name);
    if let Some(scope) = &rules.scope {
        let scope = caught(|| scope(parts))?.filter(|scope| !scope.is_empty());
        let scope = scope.ok_or_else(|| {
            let detail = "the service could not make out who asks, which keeps the keys of its clients apart";
            Problem::new(ProblemKind::ScopeMissing, detail)
        })?;
        key = key.part("scope", &scope);
    }
    let key = key.part(IDEMPOTENCY_KEY.as_str(), &sent).build();
    key.map(Some)
        .map_err(|error: KeyError| Problem::new(ProblemKind::KeyInvalid, error.to_string()))
}

impl<B: RequestBody> Source<B> {
    fn stream(body: B) -> Self {
        Self::Stream(Mutex::new(Some(body)))
    }

    fn is_gone(&self) -> bool {
        matches!(self, Self::Gone)
    }

    /// Reads all of it, if it is not too large and does not take too long.
    async fn read(&mut self, rules: &Rules) -> Result<Bytes, Problem> {
        let body = match mem::replace(self, Self::Gone) {
            Self::Stream(body) => body.into_inner().unwrap_or_else(PoisonError::into_inner),
            Self::Whole(_) | Self::Gone => None,
        };
        let body = body.expect("it is read once");
        if body.size_hint().lower() > rules.max_request as u64 {
            *self = Self::stream(body);
            return Err(too_large(rules));
        }
        let bytes = if rules.only_observe() {
            // Its handler gets what was read, and the rest.
            let mut body = Box::pin(body);
            match whole(body.as_mut(), rules).await {
                Ok(bytes) => bytes,
                Err((problem, read)) => {
                    if let Some(read) = read {
                        *self = Self::stream(B::begun(read, body));
                    }
                    return Err(problem);
                }
            }
        } else {
            let body = whole(pin!(body), rules).await;
            body.map_err(|(problem, _)| problem)?
        };
        *self = Self::Whole(bytes.clone());
        Ok(bytes)
    }
}

/// The key and the fingerprint of a request, whose body is read for it as far as it has to be.
async fn known<B: RequestBody>(
    parts: &Parts,
    body: &mut Source<B>,
    rules: &Rules,
) -> Result<(Option<Key>, Fingerprint), Problem> {
    let in_headers = || key::key(&parts.headers);
    let key = if rules.protocol.looks_at_body() {
        let sent = body.read(rules).await?;
        let sent = caught(|| rules.protocol.key_in(parts, &sent))??;
        find_key(sent.map_or_else(in_headers, Ok), parts, rules)?
    } else {
        // Before anything is read. Without a key there is nothing to compare with.
        let key = find_key(in_headers(), parts, rules)?;
        if rules.compares_body && key.is_some() {
            body.read(rules).await?;
        }
        key
    };
    let compared = match body {
        Source::Whole(bytes) if rules.compares_body => Some(&**bytes),
        _ => None,
    };
    Ok((key, fingerprint(parts, compared, rules)))
}

fn too_large(rules: &Rules) -> Problem {
    let limit = rules.max_request;
    let detail = format!("it has more than {limit} bytes, which is what can be compared");
    Problem::new(ProblemKind::BodyTooLarge, detail)
}

/// All of a body; or what is wrong with it, and what of it was read, unless it broke off.
async fn whole<B: RequestBody>(
    body: Pin<&mut B>,
    rules: &Rules,
) -> Result<Bytes, (Problem, Option<Bytes>)> {
    let (mut read, limit) = (Bytes::new(), rules.max_request);
    let reading = read_into(&mut read, body, limit, |read| rules.protocol.is_one(read));
    match timeout(rules.body_timeout, reading).await {
        Ok(Ok(Read::Whole(bytes, _))) => Ok(bytes),
        Ok(Ok(Read::TooLarge(read))) => Err((too_large(rules), Some(read))),
        Ok(Ok(Read::Many(read))) => {
            let detail = "send one message: only unary calls are handled once";
            Err((Problem::new(ProblemKind::Streamed, detail), Some(read)))
        }
        Ok(Err(error)) => {
            let error = error.into().to_string();
            Err((Problem::new(ProblemKind::BodyBroken, error), None))
        }
        Err(_) => {
            let detail = format!("it did not arrive within {:?}", rules.body_timeout);
            Err((Problem::new(ProblemKind::BodyTimeout, detail), Some(read)))
        }
    }
}

/// What two requests with the same key have in common if they are the same.
fn fingerprint(parts: &Parts, body: Option<&[u8]>, rules: &Rules) -> Fingerprint {
    let uri = uri(parts);
    let mut of = Fingerprint::builder()
        .field("method", parts.method.as_str())
        .field("path", uri.path())
        .field("query", &uri.query());
    for name in [&header::CONTENT_TYPE].into_iter().chain(&*rules.compared) {
        let values = parts.headers.get_all(name).iter();
        let values: Vec<_> = values.map(http::HeaderValue::as_bytes).collect();
        of = of.field(name.as_str(), &values);
    }
    for name in CONDITIONS.iter().filter(|it| !rules.compared.contains(it)) {
        let values = parts.headers.get_all(name).iter();
        let values: Vec<_> = values.map(http::HeaderValue::as_bytes).collect();
        // What has none keeps the fingerprint that it had when they were not compared.
        if !values.is_empty() {
            of = of.field(name.as_str(), &values);
        }
    }
    let body = body.map(|body| Fingerprint::of(body).to_string());
    of.field("body", &body).build()
}

/// The path as the client sent it: a router that is nested in another one sees only the rest of it.
fn uri(parts: &Parts) -> &Uri {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::OriginalUri(uri)) = parts.extensions.get() {
        return uri;
    }
    &parts.uri
}
