//! Keys and retries in one layer, for clients whose bodies cannot be cloned.

use std::{
    error::Error,
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt as _;
use tower::retry::Retry;
use tower_layer::Layer;
use tower_service::Service;

use super::{keys::give_key, retries::RetryPolicy};
use crate::{
    inner::RequestBody,
    reading::{Read, read},
    response_body::ResponseBody,
};

type BoxError = Box<dyn Error + Send + Sync>;

/// Gives requests a key, as [`KeyLayer`](super::KeyLayer) does, and sends those that have one again, as a [`RetryPolicy`] says.
///
/// The body of such a request is read before it is sent, and that of its response before it is handed on, so that one that
/// breaks off is sent again, too. Requests without a key are passed through. For gRPC it is a layer for channels of unary calls:
/// a stream would be read to its end first.
#[derive(Debug, Clone)]
pub struct ClientLayer {
    retries: RetryPolicy,
    max_response: usize,
}

impl ClientLayer {
    /// With the default [`RetryPolicy`].
    pub fn new() -> Self {
        Self {
            retries: RetryPolicy::new(),
            max_response: 4 * 1024 * 1024,
        }
    }

    /// Sends requests again as this says.
    pub fn retries(self, retries: RetryPolicy) -> Self {
        Self { retries, ..self }
    }

    /// The largest body of a response in bytes that is read before it is handed on, 4 MiB unless this says otherwise. A request
    /// whose response is larger is not sent again if that breaks off.
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

/// A client that sends requests until they are answered: see [`ClientLayer`].
#[derive(Debug, Clone)]
pub struct Sending<S> {
    layer: ClientLayer,
    inner: S,
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

impl<S, B, R> Service<Request<B>> for Sending<S>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>, Future: Send>
        + Clone
        + Send
        + 'static,
    B: RequestBody,
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<ResponseBody<R>>;
    type Error = BoxError;
    type Future = BoxFuture<Response<ResponseBody<R>>>;

    /// Always: each try waits for the client in its turn.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Self { layer, mut inner } = self.clone();
        if !give_key(&mut request) {
            return Box::pin(async move {
                poll_fn(|cx| inner.poll_ready(cx))
                    .await
                    .map_err(Into::into)?;
                let response = inner.call(request).await.map_err(Into::into)?;
                Ok(response.map(ResponseBody::handlers))
            });
        }
        Box::pin(async move {
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
        })
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

impl<S, B, R> Service<Request<Bytes>> for Try<S, B>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>, Future: Send>
        + Clone
        + Send
        + 'static,
    B: RequestBody,
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<ResponseBody<R>>;
    type Error = BoxError;
    type Future = BoxFuture<Response<ResponseBody<R>>>;

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
            let mut body = Box::pin(body);
            let read = read(body.as_mut(), limit, |_| true).await;
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
