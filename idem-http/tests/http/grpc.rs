//! gRPC: layers on servers of tonic, and its client.

mod atomic;
mod calls;
mod lifecycle;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod outages;
#[cfg(feature = "postgres")]
#[allow(
    dead_code,
    clippy::items_after_statements,
    reason = "it is what a page shows"
)]
mod page;
mod responses;
mod service;

#[cfg(feature = "client")]
pub(crate) use service::{Answer, Answered, BoxFuture, Order, Receipt};
#[cfg(any(feature = "client", feature = "metrics"))]
pub(crate) use service::{Service, order};
