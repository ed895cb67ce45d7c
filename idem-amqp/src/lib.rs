//! Idempotent RabbitMQ consumers: *handle each message once, even when it arrives twice*.
//!
//! ```no_run
//! use idem_amqp::{MemoryStore, prelude::*};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! struct OrderPlaced { order_id: String, amount_cents: i64 }
//!
//! // The scope is durable: it stands in every key.
//! #[idempotent(key = "order_id", scope = "orders.charge")]
//! async fn charge(order: OrderPlaced, attempt: Attempt) -> Result<(), Failed> {
//!     if order.amount_cents <= 0 {
//!         return Err(Failed::rejected("amount must be positive"));
//!     }
//!     println!("charging {} (attempt {})", order.order_id, attempt.number());
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! Worker::builder(MemoryStore::new())
//!     .consume::<charge>("orders.charge")
//!     .run_until("amqp://127.0.0.1:5672/%2f", shutdown_signal())
//!     .await?;
//! # Ok(()) }
//! ```
//!
//! A message that arrives again is acknowledged without running the handler. If another worker is
//! processing the same key, the copy waits and is checked again. A handler that fails runs again, up
//! to the policy's maximum attempts; then the message goes to the dead-letter queue, with the reason
//! in its headers. What is promised, and what is not, is in `docs/guarantees.md`; `docs/proofs.md` names
//! the tests.
//!
//! The root has what a first program names. The rest stands in modules:
//!
//! | module | for |
//! |---|---|
//! | [`handler`], [`message`] | extractors, key parts and policies of your own |
//! | [`stores`], [`store`] | building a store; writing one |
//! | [`worker`], [`error`] | several handlers on one queue; watching a worker; telling one failure from another |
//! | [`dead_letters`], [`operator`] | what an operator does, in code |
//! | [`client`], [`session`] | requests and replies |
//! | [`sequence`] | messages that their producer numbers |
//! | [`outbox`] | messages that a handler publishes with its commit |
//! | [`executor`] | handling something once without RabbitMQ |
//!
//! | feature | adds |
//! |---|---|
//! | `macros` (default) | `#[idempotent]`, `#[derive(IdempotencyKey)]` and `#[derive(FromRef)]` |
//! | `sqlite` | `SqliteStore`, and handlers that take `&mut SqliteConnection` |
//! | `postgres` | `PostgresStore`, and handlers that take `&mut PgConnection` |
//! | `redis` | `RedisStore` |
//! | `uuid` | `uuid::Uuid` as a part of a key |
//! | `anyhow` | handlers that return `anyhow::Result` |
//! | `metrics` | counters, gauges and histograms for the facade `metrics`; `docs/operations.md` lists them |
//! | `opentelemetry` | trace context in the headers of messages; `docs/operations.md` says how |
//! | `testing` | what `idem-testing` stands on: a consumer, and a client's session, without a connection |
//! | `rustls` | TLS, with the system's certificates: `amqps://`, `rediss://`, and `sslmode` of `postgres://` |

pub mod client;
mod connection;
pub mod dead_letters;
mod doctor;
pub mod error;
pub mod executor;
pub mod handler;
pub mod message;
pub mod outbox;
pub mod prelude;
mod publisher;
pub mod sequence;
pub mod session;
mod shutdown;
pub mod store;
pub mod stores;
mod telemetry;
mod topology;
mod wire;
pub mod worker;

// The root has what a first program names: docs/decisions/0036
pub use client::Client;
pub use connection::AmqpUrls;
pub use error::{BuildError, PublishError, RunError};
pub use publisher::Publisher;
pub use shutdown::shutdown_signal;
pub use topology::{Partitions, Queue};
pub use wire::{Delivery, Publication, QueueType, StreamOffset};
pub use worker::{Worker, WorkerBuilder};

#[cfg(feature = "postgres")]
pub use idem_core::PostgresStore;
#[cfg(feature = "redis")]
pub use idem_core::RedisStore;
#[cfg(feature = "sqlite")]
pub use idem_core::SqliteStore;
#[doc(inline)]
pub use idem_core::operator;
#[cfg(feature = "redis")]
pub use idem_core::redis;
#[doc(inline)]
pub use idem_core::settlement::{Ladder, OnFailure};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use idem_core::sqlx;
pub use idem_core::{
    AnyStore, Attempt, Batch, Failed, Failure, FencingToken, FromContext, Headers, Key,
    MemoryStore, Policy, Refused, Request, State, Store, StoreError, Verdict,
};

#[doc(inline)]
pub use idem_core::__private::{FromRefTrait as FromRef, IdempotencyKeyTrait as IdempotencyKey};

#[cfg(feature = "macros")]
pub use idem_macros::{
    FromRefAmqp as FromRef, IdempotencyKeyAmqp as IdempotencyKey, idempotent_amqp as idempotent,
};

#[doc(hidden)]
pub use idem_core::__private;

/// The README's example compiles.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The programs of the first hour compile.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../docs/first-consumer.md")]
struct FirstConsumer;
