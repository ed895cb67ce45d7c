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
//! A message that arrives again is acknowledged without running the handler. A message that
//! another worker is at is held and looked at again. A handler that fails runs again, up to the
//! policy's maximum attempts; then the message goes to the dead-letter queue, with the reason in
//! its headers. What is promised, and what is not, is in `docs/guarantees.md`.
//!
//! | feature | adds |
//! |---|---|
//! | `macros` (default) | `#[idempotent]` and `#[derive(IdempotencyKey)]` |
//! | `sqlite` | `SqliteStore`, and handlers that take `&mut SqliteConnection` |
//! | `postgres` | `PostgresStore`, and handlers that take `&mut PgConnection` |
//! | `redis` | `RedisStore` |
//! | `uuid` | `uuid::Uuid` as a part of a key |
//! | `metrics` | counters, gauges and histograms for the facade `metrics`; `docs/operations.md` lists them |
//! | `opentelemetry` | trace context in the headers of messages; `docs/operations.md` says how |
//! | `testing` | tests of handlers without a broker and without a server, on paused time |
//! | `rustls` | TLS, with the system's certificates: `amqps://`, `rediss://`, and `sslmode` of `postgres://` |

mod client;
mod connection;
mod dead_letters;
mod doctor;
mod error;
pub mod prelude;
mod publisher;
mod shutdown;
mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod topology;
mod wire;
mod worker;

pub use client::{
    Again, Call, CallError, Client, ClientBuilder, ClientCounts, ClientError, Replied, ReplyTo,
    RequestNumber, Session, SessionBuilder, SessionCall, SessionError, Unanswered,
};
pub use connection::{
    AmqpUrls,
    health::{Health, Problem, ProblemKind},
};
pub use dead_letters::{Dealt, Fate, LetterError, ReplayError, Replayer, Selection, Tally};
pub use error::{
    Permission, PublishError, TopologyError, TopologyObject, TopologyProblem, WorkerError,
};
pub use publisher::{NumberedPublisher, Publisher, Withdrawn};
pub use shutdown::shutdown_signal;
pub use topology::Queue;
pub use wire::{
    DeadLetter, Delivery, Incident, Incidents, Ladder, LadderError, Publication, QueueType, Reason,
    Replies, ReplyFate, SessionCounts, Sessions, Settled, Settlement,
};
pub use worker::{Balance, Worker, WorkerBuilder};

#[doc(inline)]
pub use idem_core::operator;
pub use idem_core::{Answer, Refusal, Refused, Request};
pub use idem_core::{
    AnyStore, Atomic, Attempt, Backoff, Begun, Cause, Claim, ClaimRequest, ConnectError, Context,
    DecodeError, Enforcement, Envelope, EnvelopeBuilder, ErrorChain, Execution, ExecutionKind,
    Executor, Failed, Failure, FencingToken, Finding, Fingerprint, FingerprintBuilder, Finish,
    Finished, FromContext, FromRef, Handler, HeaderSource, Headers, InDoubt, Key, KeyBuilder,
    KeyError, KeyPart, Lease, Leased, MemoryStore, MemoryStoreBuilder, Mode, Open, Operation,
    OutOfPlace, Outcome, Owner, Policy, PolicyBuilder, PolicyError, Prepared, Purge, PurgeTask,
    Rejection, Release, RunsOn, Severity, State, Store, StoreError, StoreOutage,
    TransactionalStore, Verdict, Write,
};
pub use idem_core::{CacheStats, Cached, CachedBuilder, Reports};
pub use idem_core::{Entity, EntityError, EntityStore, InEntity, RecordedBy};
pub use idem_core::{
    FileKeeper, KeeperError, KeepingPlace, KeptRequest, KeptSession, SessionKeeper, TakenPlace,
};
pub use idem_core::{GroupStore, Grouped};
pub use idem_core::{
    MessageNumber, Numbered, Position, PositionKind, SequenceKey, SequencePlace, SequenceStore,
    SequenceWait,
};
pub use idem_core::{
    OpenSession, Opened, SessionKey, SessionNumber, SessionPlace, SessionStore, Touched,
};

#[cfg(feature = "sqlite")]
pub use idem_core::SqliteKeeper;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use idem_core::sqlx;
#[cfg(feature = "postgres")]
pub use idem_core::{Migrate, PostgresStore, PostgresStoreBuilder};
#[cfg(feature = "redis")]
pub use idem_core::{RedisStore, RedisStoreBuilder};
#[cfg(feature = "sqlite")]
pub use idem_core::{SqliteStore, SqliteStoreBuilder};

#[doc(inline)]
pub use idem_core::__private::IdempotencyKeyTrait as IdempotencyKey;

#[cfg(feature = "macros")]
pub use idem_macros::{IdempotencyKeyAmqp as IdempotencyKey, idempotent_amqp as idempotent};

#[doc(hidden)]
pub use idem_core::__private;

/// The README's example compiles.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The examples of the guide to tests compile, and what they assert holds.
#[cfg(all(doctest, feature = "sqlite", feature = "testing"))]
#[doc = include_str!("../../docs/testing.md")]
struct Testing;
