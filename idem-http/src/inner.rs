//! What the service behind a layer takes and answers.

use std::{error::Error, future::Future, pin::Pin};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use tower_service::Service;

/// What a body may fail with.
pub(crate) type BodyError = Box<dyn Error + Send + Sync>;

/// The body of a request that a layer reads before it hands the request on. Those of axum, of tonic and `Full` are such.
pub trait RequestBody: Body<Data = Bytes, Error: Into<BodyError>> + Send + 'static {
    /// The body with these bytes.
    fn whole(bytes: Bytes) -> Self;

    /// The body that begins with these bytes, which were read, and goes on with the rest.
    fn begun(read: Bytes, rest: Pin<Box<Self>>) -> Self;
}

impl RequestBody for Full<Bytes> {
    fn whole(bytes: Bytes) -> Self {
        Self::new(bytes)
    }

    /// It is read at once, so there is no rest.
    fn begun(read: Bytes, _: Pin<Box<Self>>) -> Self {
        Self::new(read)
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
}

#[cfg(feature = "tonic")]
impl RequestBody for tonic::body::Body {
    fn whole(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes))
    }

    fn begun(read: Bytes, rest: Pin<Box<Self>>) -> Self {
        Self::new(crate::response_body::ResponseBody::begun(read, rest))
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
