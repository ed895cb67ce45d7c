//! Layers on real sockets, and on real servers where the store has one.

mod atomic;
mod bodies;
mod client;
mod lifecycle;
mod protocol;
mod responses;
mod service;
mod stores;
