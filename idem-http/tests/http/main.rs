//! Layers on real sockets, and on real servers where the store has one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod atomic;
mod bodies;
mod claims;
mod client;
#[cfg(feature = "client")]
#[allow(dead_code, reason = "it is what a page shows")]
mod clients_page;
mod cutting;
#[cfg(feature = "tonic")]
mod grpc;
mod http2;
mod lifecycle;
#[cfg(feature = "metrics")]
mod metered;
mod observed;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod outages;
mod page;
mod protocol;
#[cfg(feature = "reqwest")]
mod reqwest;
mod responses;
mod scenarios;
#[cfg(feature = "client")]
mod sending;
mod service;
mod spans;
mod stores;
