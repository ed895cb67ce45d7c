//! What the service behind a layer takes and answers.

#[cfg(any(feature = "axum", feature = "reqwest", feature = "tonic"))]
use std::task::{Context, Poll, ready};
use std::{error::Error, future::Future, pin::Pin, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
#[cfg(any(feature = "axum", feature = "reqwest", feature = "tonic"))]
use http_body::{Frame, SizeHint};
use http_body_util::Full;
#[cfg(any(feature = "axum", feature = "reqwest", feature = "tonic"))]
use pin_project_lite::pin_project;
#[cfg(any(feature = "axum", feature = "reqwest", feature = "tonic"))]
use tokio::time::{Sleep, sleep};
use tower_service::Service;

/// What a body may fail with.
pub(crate) type BodyError = Box<dyn Error + Send + Sync>;

/// The body of a request that a layer reads before it hands the request on. Those of axum, tonic and reqwest and
/// `Full` are such.
pub trait RequestBody: Body<Data = Bytes, Error: Into<BodyError>> + Send + 'static {
    /// The body with these bytes.
    fn whole(bytes: Bytes) -> Self;

    /// The body that begins with these bytes, which were read, and goes on with the rest.
    fn begun(read: Bytes, rest: Pin<Box<Self>>) -> Self;

    /// The same body, which breaks off if it has not arrived within this time.
    fn within(self, timeout: Duration) -> Self;
}

impl RequestBody for Full<Bytes> {
    fn whole(bytes: Bytes) -> Self {
        Self::new(bytes)
    }

    /// It is read at once, so there is no rest.
    fn begun(read: Bytes, _: Pin<Box<Self>>) -> Self {
        Self::new(read)
    }

    /// It is there.
    fn within(self, _: Duration) -> Self {
        self
    }
}

#[cfg(feature = "axum")]
impl RequestBody for axum::body::Body {
    fn whole(bytes: Bytes) -> Self {
        bytes.into()
    }

    fn begun(read: Bytes, rest: Pin<Box<Self>>) -> Self {
        Self::new(crate::response_body::ResponseBody::begun(read, rest))
    }

    fn within(self, timeout: Duration) -> Self {
        Self::new(Within::new(self, timeout))
    }
}

#[cfg(feature = "tonic")]
impl RequestBody for tonic::body::Body {
    fn whole(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes))
    }

    fn begun(read: Bytes, rest: Pin<Box<Self>>) -> Self {
        Self::new(crate::response_body::ResponseBody::begun(read, rest))
    }

    fn within(self, timeout: Duration) -> Self {
        Self::new(Within::new(self, timeout))
    }
}

#[cfg(feature = "reqwest")]
impl RequestBody for reqwest::Body {
    /// As reqwest has it by itself, so that it can send it again after a redirect.
    fn whole(bytes: Bytes) -> Self {
        bytes.into()
    }

    fn begun(read: Bytes, rest: Pin<Box<Self>>) -> Self {
        Self::wrap(crate::response_body::ResponseBody::begun(read, rest))
    }

    fn within(self, timeout: Duration) -> Self {
        Self::wrap(Within::new(self, timeout))
    }
}

#[cfg(any(feature = "axum", feature = "reqwest", feature = "tonic"))]
pin_project! {
    /// A body that has to arrive in time.
    struct Within<B> {
        #[pin]
        body: B,
        #[pin]
        end: Sleep,
    }
}

#[cfg(any(feature = "axum", feature = "reqwest", feature = "tonic"))]
impl<B> Within<B> {
    fn new(body: B, timeout: Duration) -> Self {
        let end = sleep(timeout);
        Self { body, end }
    }
}

#[cfg(any(feature = "axum", feature = "reqwest", feature = "tonic"))]
impl<B: Body<Data = Bytes, Error: Into<BodyError>>> Body for Within<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let it = self.project();
        if let Poll::Ready(frame) = it.body.poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(it.end.poll(cx));
        Poll::Ready(Some(Err("the body did not arrive in time".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The service behind a layer, for requests with a body of type `B`. Implemented for whatever fits.
pub trait InnerService<B>:
    Service<
        Request<B>,
        Response = Response<Self::ResponseBody>,
        Error: Send + 'static,
        Future: Future<Output: Send> + Send + 'static,
    > + Clone
    + Send
    + 'static
{
    /// The body of its responses.
    type ResponseBody: Body<Data = Bytes> + Send + 'static;
}

impl<T, B, R> InnerService<B> for T
where
    T: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    T::Error: Send + 'static,
    T::Future: Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
{
    type ResponseBody = R;
}
