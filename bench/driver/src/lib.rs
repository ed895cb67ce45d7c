//! Measures, on servers that are set up as in production, beside the code that people write by hand.
//!
//! The measuring itself is done by programs that know databases and RabbitMQ (`bench/stores`, `bench/consume`,
//! `bench/mq-bridge`); this here starts the servers, runs the programs and reads their figures.

mod arena;
pub mod consume;
mod kept;
pub mod latency;
mod median;
pub mod outbox;
mod program;
pub mod scale;
mod server;
mod slow_link;
mod store_kind;
pub mod stores;
mod table;

pub use self::store_kind::StoreKind;
