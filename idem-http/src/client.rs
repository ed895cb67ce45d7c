//! Clients: a key for each logical request, kept over its retries.
//!
//! A [`ClientLayer`] round an HTTP client, or round a channel of tonic, gives each POST and PATCH a key of its own, and
//! sends it again, with the same key, while its answer says that this is of use. So a request whose answer was lost has
//! its effect once, if the service keeps its keys.
//!
//! ```no_run
//! use bytes::Bytes;
//! use http::Request;
//! use http_body_util::Full;
//! use hyper_util::{client::legacy::Client, rt::TokioExecutor};
//! use idem_http::client::ClientLayer;
//! use tower_layer::Layer;
//! use tower_service::Service;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
//! let mut client = ClientLayer::new().layer(client);
//! let order = Request::post("http://orders/charges").body(Full::from(r#"{"id":"o-1"}"#))?;
//! let receipt = client.call(order).await?;
//! # let _ = receipt;
//! # Ok(())
//! # }
//! ```
//!
//! `Reqwest` does the same with a client of reqwest (feature `reqwest`). The client of a gRPC service takes the channel:
//! `ChargesClient::new(ClientLayer::new().layer(channel))`.

mod keys;
mod layer;
#[cfg(feature = "reqwest")]
mod reqwest;
mod retries;

#[cfg(feature = "reqwest")]
pub use self::reqwest::Reqwest;
pub use keys::{KeyLayer, WithKeys};
pub use layer::{ClientLayer, HttpClient, Sending, SentKey, Unanswered};
pub use retries::RetryPolicy;
