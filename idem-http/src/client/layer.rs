//! Keys and retries in one layer, for clients whose bodies cannot be cloned.

use std::{
    error::Error,
    fmt,
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};
use tower::retry::Retry;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    keys::give_key,
    retries::{RetryPolicy, Tries},
};
use crate::{
    key::IDEMPOTENCY_KEY,
    protocol::{grpc_error, has_prefix, is_grpc},
    reading::{Read, read},
    response_body::ResponseBody,
    wrapped_service::{InnerService, RequestBody},
};

type BoxError = Box<dyn Error + Send + Sync>;

/// Gives requests a key, as [`KeyLayer`](super::KeyLayer) does, and sends those that have one again, as a
/// [`RetryPolicy`] says.
///
/// The body of such a request is read before it is sent, and that of its response before it is handed on, so that one
/// that breaks off is sent again, too. A response that is a `text/event-stream` is handed on as it comes, and one of
/// gRPC from its second message on. Requests without a key are passed through. For gRPC it is a layer for channels of
/// unary calls: a stream of requests would be read to its end first.
///
/// The key is an extension of the response, [`SentKey`], and in the error, [`Unanswered`]. Inside of a handler that may
/// run again a key of its own for each run is of no use: send one that follows from the handler's key, as [`SentKey`]
/// says.
#[derive(Debug, Clone)]
pub struct ClientLayer {
    retries: RetryPolicy,
    max_response: usize,
    only: fn(&str) -> bool,
}

impl ClientLayer {
    /// A layer with the default [`RetryPolicy`].
    pub fn new() -> Self {
        Self {
            retries: RetryPolicy::new(),
            max_response: 4 * 1024 * 1024,
            only: |_| true,
        }
    }

    /// Keeps the layer to requests whose path this function accepts: all others are passed through, and neither get a
    /// key nor are sent again. It must accept no path that the service's layer leaves out (`Grpc::only`, or a route
    /// without the layer): there a request that is sent again has its effect again.
    pub fn only(self, only: fn(&str) -> bool) -> Self {
        Self { only, ..self }
    }

    /// Sends requests again as this says.
    pub fn retries(self, retries: RetryPolicy) -> Self {
        Self { retries, ..self }
    }

    /// The largest body of a response in bytes that is read before it is handed on, 4 MiB unless this says otherwise. A
    /// request whose response is larger is not sent again if that breaks off.
    pub fn max_response(self, max_response: usize) -> Self {
        Self {
            max_response,
            ..self
        }
    }
}

impl Default for ClientLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for ClientLayer {
    type Service = Sending<S>;

    fn layer(&self, inner: S) -> Sending<S> {
        let layer = self.clone();
        Sending { layer, inner }
    }
}

/// A client that a [`ClientLayer`] can be laid round, for requests with a body of type `B`. Implemented for whatever
/// fits.
pub trait HttpClient<B>:
    InnerService<B, ResponseBody: Body<Error: Into<BoxError>>, Error: Into<BoxError>>
{
}

impl<S, B> HttpClient<B> for S where
    S: InnerService<B, ResponseBody: Body<Error: Into<BoxError>>, Error: Into<BoxError>>
{
}

/// A client that sends requests until they are answered: see [`ClientLayer`].
#[derive(Debug, Clone)]
pub struct Sending<S> {
    layer: ClientLayer,
    inner: S,
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

impl<S: HttpClient<B>, B: RequestBody> Service<Request<B>> for Sending<S> {
    type Response = Response<ResponseBody<S::ResponseBody>>;
    type Error = BoxError;
    type Future = BoxFuture<Response<ResponseBody<S::ResponseBody>>>;

    /// Always: each try waits for the client in its turn.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Self { layer, mut inner } = self.clone();
        if !(layer.only)(request.uri().path()) || !give_key(&mut request) {
            return Box::pin(async move {
                poll_fn(|cx| inner.poll_ready(cx))
                    .await
                    .map_err(Into::into)?;
                let response = inner.call(request).await.map_err(Into::into)?;
                Ok(response.map(ResponseBody::handlers))
            });
        }
        let key = SentKey(request.headers()[IDEMPOTENCY_KEY].clone());
        let end = request.extensions().get::<Tries>().and_then(|it| it.end());
        let call = request.headers().clone();
        Box::pin(async move {
            let answered = async {
                let (head, body) = request.into_parts();
                let body = body.collect().await.map_err(Into::into)?.to_bytes();
                let one_try = Try {
                    inner,
                    max_response: layer.max_response,
                    of: PhantomData,
                };
                let mut tries = Retry::new(layer.retries, one_try);
                poll_fn(|cx| tries.poll_ready(cx)).await?;
                tries.call(Request::from_parts(head, body)).await
            };
            let answered = match end {
                Some(end) => timeout_at(end, answered).await.ok(),
                None => Some(answered.await),
            };
            let is_over = end.is_some_and(|end| end <= Instant::now());
            let mut response = match answered {
                Some(Ok(response)) => response,
                Some(Err(source)) if !is_over => return Err(Unanswered { key, source }.into()),
                _ => {
                    tracing::warn!(?key, "a call has no answer, and its time is over");
                    // DEADLINE_EXCEEDED.
                    ResponseBody::whole(grpc_error(&call, "4", "the time of the call is over"))
                }
            };
            response.extensions_mut().insert(key);
            Ok(response)
        })
    }
}

/// The `Idempotency-Key` that a request was sent with, as its header has it: an extension of its response. Whoever
/// keeps it can send the request again, and is told what has come of it.
///
/// A handler of idem that calls another service may run again, and has to send the same key then. It follows from its
/// own:
///
/// ```
/// use http::Request;
/// use idem_core::Key;
///
/// let key = Key::new("orders.charge", "o-17")?;
/// // Quoted, because it may have spaces, commas or semicolons.
/// let sent = format!("\"{}\"", key.derive_id("charge"));
/// let request = Request::post("http://payments/charges").header("idempotency-key", sent);
/// # request.body(())?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// Where a key may have other characters than those of ASCII, `"` or `\`, send
/// [`Fingerprint::of`](idem_core::message::Fingerprint::of) that id, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentKey(HeaderValue);

impl SentKey {
    /// The key as the header has it.
    pub fn header(&self) -> &HeaderValue {
        &self.0
    }
}

/// The error of a request that has got no answer. Whether it had its effect is not known: sent again with this key, it
/// says.
pub struct Unanswered {
    key: SentKey,
    source: BoxError,
}

idem_core::debug_as_chain!(Unanswered);

impl Unanswered {
    /// The request's key.
    pub fn key(&self) -> &SentKey {
        &self.key
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no answer to the request with the key {:?}", self.key.0)
    }
}

impl Error for Unanswered {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

/// Sends a request once, and reads its response.
struct Try<S, B> {
    inner: S,
    max_response: usize,
    of: PhantomData<fn(B)>,
}

impl<S: Clone, B> Clone for Try<S, B> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            ..*self
        }
    }
}

impl<S: HttpClient<B>, B: RequestBody> Service<Request<Bytes>> for Try<S, B> {
    type Response = Response<ResponseBody<S::ResponseBody>>;
    type Error = BoxError;
    type Future = BoxFuture<Response<ResponseBody<S::ResponseBody>>>;

    /// Always: what a client that cannot be reached says is an answer like any other.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let (mut inner, limit) = (self.inner.clone(), self.max_response);
        Box::pin(async move {
            poll_fn(|cx| inner.poll_ready(cx))
                .await
                .map_err(Into::into)?;
            let response = inner.call(request.map(B::whole)).await;
            let (head, body) = response.map_err(Into::into)?.into_parts();
            if is_of_events(&head.headers) {
                return Ok(Response::from_parts(head, ResponseBody::handlers(body)));
            }
            let mut body = Box::pin(body);
            let is_grpc = is_grpc(&head.headers);
            let read = read(body.as_mut(), limit, |read| !is_grpc || is_one(read)).await;
            Ok(match read.map_err(Into::into)? {
                Read::Whole(bytes, trailers) => {
                    let response = Response::from_parts(head, bytes);
                    ResponseBody::with_trailers(response, trailers.unwrap_or_default())
                }
                Read::TooLarge(begun) | Read::Many(begun) => {
                    Response::from_parts(head, ResponseBody::begun(begun, body))
                }
            })
        })
    }
}

/// Whether a body is a stream of events, which may have no end.
fn is_of_events(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| has_prefix(kind.as_bytes(), b"text/event-stream"))
}

/// Whether what was read of an answer is one message of gRPC, or the beginning of one.
#[cfg(feature = "tonic")]
fn is_one(read: &[u8]) -> bool {
    crate::grpc::is_one(read)
}

/// Nobody calls without the feature.
#[cfg(not(feature = "tonic"))]
fn is_one(_: &[u8]) -> bool {
    true
}
