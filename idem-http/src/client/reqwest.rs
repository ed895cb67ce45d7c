//! A client of reqwest, as a service that a [`ClientLayer`] can be laid round.

use std::{
    error::Error,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response};
use reqwest::{Body, ResponseBuilderExt as _};
use tower_layer::Layer as _;
use tower_service::Service;

use super::layer::{ClientLayer, Sending};

type BoxError = Box<dyn Error + Send + Sync>;

/// A client of [`reqwest`] whose requests have a key each, and are sent again while that is of use: see
/// [`ClientLayer`].
///
/// ```no_run
/// use idem_http::client::Reqwest;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let client = reqwest::Client::new();
/// let once = Reqwest::new(client.clone());
/// let order = client.post("http://orders/charges").body(r#"{"id":"o-1"}"#);
/// let receipt = once.execute(order.build()?).await?.text().await?;
/// # let _ = receipt;
/// # Ok(())
/// # }
/// ```
///
/// A body that is a stream is read before it is sent, if its request gets a key; no timeout is over that. A timeout of
/// the client, or of the request, is one of each try.
#[derive(Debug, Clone)]
pub struct Reqwest(Sending<AsService>);

impl Reqwest {
    /// With the default [`ClientLayer`].
    pub fn new(client: reqwest::Client) -> Self {
        Self::with(client, &ClientLayer::new())
    }

    /// With this layer.
    pub fn with(client: reqwest::Client, layer: &ClientLayer) -> Self {
        Self(layer.layer(AsService(client)))
    }

    /// Sends a request, and again while that is of use. The response has its key as an extension,
    /// [`SentKey`](super::SentKey).
    ///
    /// # Errors
    /// There is no answer: [`Unanswered`](super::Unanswered) has the request's key, and reqwest's error as its cause.
    /// Of a request that gets no key, reqwest's error.
    pub async fn execute(&self, request: reqwest::Request) -> Result<reqwest::Response, BoxError> {
        let request = Request::<Body>::try_from(request)?;
        let response = self.0.clone().call(request).await?;
        Ok(response.map(Body::wrap).into())
    }
}

/// The client, with the types of the crate `http`.
#[derive(Debug, Clone)]
struct AsService(reqwest::Client);

impl Service<Request<Body>> for AsService {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move {
            let request = reqwest::Request::try_from(request)?;
            let response = client.execute(request).await?;
            // The types of `http` have no place for it.
            let url = Response::builder().url(response.url().clone()).body(())?;
            let mut response = Response::<Body>::from(response);
            let (head, ()) = url.into_parts();
            response.extensions_mut().extend(head.extensions);
            Ok(response)
        })
    }
}
