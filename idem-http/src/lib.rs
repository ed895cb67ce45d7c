//! `Idempotency-Key` for HTTP services: a request is handled once, even when it arrives twice.
//!
//! A client that lost the answer sends its request again, under the same key. An [`IdempotencyLayer`] round the routes
//! runs the handler for the first, and answers the others with the first one's response: from memory, SQLite,
//! PostgreSQL or Redis, as idem's queue workers do. With [`atomic`](IdempotencyLayer::atomic) the handler writes in the
//! transaction in which its response is recorded, so a crash between effect and response loses or doubles neither.
//!
//! ```
//! use axum::{Json, Router, http::StatusCode, routing::post};
//! use idem_core::MemoryStore;
//! use idem_http::IdempotencyLayer;
//! use serde_json::{Value, json};
//!
//! async fn charge(Json(order): Json<Value>) -> (StatusCode, Json<Value>) {
//!     (StatusCode::CREATED, Json(json!({ "charged": order["amount_cents"] })))
//! }
//!
//! /// What an authentication layer outside of this one puts into the request's extensions.
//! #[derive(Clone)]
//! struct Tenant(String);
//!
//! let once = IdempotencyLayer::new(MemoryStore::new())
//!     .scoped_by(|request| request.extensions.get::<Tenant>().map(|tenant| tenant.0.clone()));
//! let app: Router = Router::new().route("/charges", post(charge)).layer(once);
//! # let _ = app;
//! ```
//!
//! | feature | |
//! |---|---|
//! | `axum` (default) | the extractor [`Tx`], and what axum knows of a route |
//! | `tonic` | servers of gRPC |
//! | `client` | keys and retries for clients |
//! | `metrics` | counters, gauges and histograms for the facade `metrics`; `docs/http.md` lists them |
//! | `sqlite`, `postgres`, `redis`, `rustls` | stores, and TLS to them |
//! | `testing` | what `idem-testing` stands on: a request that ends with its process; not for production |
//!
//! What is answered when, what is compared and what is remembered: `docs/http.md`.

mod answer;
#[cfg(feature = "client")]
pub mod client;
mod detach_on_drop;
mod endpoint;
mod extract;
#[cfg(feature = "tonic")]
mod grpc;
mod key;
mod layer;
mod problem;
mod protocol;
mod reading;
mod remember;
mod remembered;
mod request;
mod response_body;
mod rules;
mod service;
mod telemetry;
mod wrapped_service;

#[cfg(feature = "testing")]
#[doc(hidden)]
pub use detach_on_drop::end_with_process;
pub use endpoint::EndpointMode;
pub use extract::{NoTransaction, Tx};
#[cfg(feature = "tonic")]
pub use grpc::Grpc;
#[doc(no_inline)]
pub use idem_core::handler::AtomicOwned;
pub use layer::{IdempotencyLayer, Unscoped};
pub use problem::ProblemKind;
pub use remember::Remember;
pub use response_body::ResponseBody;
pub use rules::KeyRule;
pub use service::Idempotency;
pub use wrapped_service::{InnerService, RequestBody};
