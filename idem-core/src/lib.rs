//! The engine of idem: handle each message once, even when it arrives twice.
//!
//! This crate knows no transport. It names a unit of work by a [`Key`], claims it in a [`Store`],
//! runs a handler under the lease that the claim gave, and remembers the outcome. An
//! [`Executor`] is that story in one call:
//!
//! ```
//! use idem_core::{Execution, Executor, Failed, Key, MemoryStore, Policy};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let executor = Executor::new(MemoryStore::new());
//! let key = Key::new("orders.charge", "o-17")?;
//!
//! let first = executor.execute(key.clone(), &Policy::DEFAULT, async |_attempt| {
//!     Ok::<_, Failed>("charged")
//! });
//! assert!(matches!(first.await, Execution::Executed { .. }));
//!
//! let second = executor.execute(key, &Policy::DEFAULT, async |_attempt| {
//!     Ok::<_, Failed>("never runs")
//! });
//! assert!(matches!(second.await, Execution::Duplicate { .. }));
//! # Ok::<_, idem_core::KeyError>(()) }).unwrap();
//! ```
//!
//! Consumers of RabbitMQ use `idem-amqp`, which re-exports all of this.
//!
//! | feature | adds |
//! |---|---|
//! | `macros` (default) | `#[idempotent]` and `#[derive(IdempotencyKey)]` |
//! | `sqlite` | `SqliteStore`, and handlers that take `&mut SqliteConnection` |
//! | `postgres` | `PostgresStore`, and handlers that take `&mut PgConnection` |
//! | `redis` | `RedisStore` |
//! | `rustls` | TLS to the servers of these stores: `rediss://`, and `sslmode` of `postgres://` |
//! | `uuid` | `uuid::Uuid` as a part of a key |
//! | `metrics` | counters, gauges and histograms for the facade `metrics`; `docs/operations.md` lists them |
//! | `conformance` | the conformance suite for stores, your own included |
//! | `testing` | tests of handlers without a server, on paused time |

#[cfg(feature = "conformance")]
pub mod conformance;
mod error_chain;
mod executor;
mod futures;
mod handler;
mod message;
mod random;
mod session_storage;
mod store;
mod stores;
mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;

pub use error_chain::ErrorChain;
#[doc(hidden)]
pub use executor::Sharing;
pub use executor::{
    Cause, Execution, ExecutionKind, Executor, Prepared, Reports, RunsOn, SequenceWait,
};
pub use handler::{
    Answer, Atomic, Attempt, Backoff, Context, DecodeError, Enforcement, Entity, Failed, Failure,
    FencingToken, FromContext, FromRef, Grouped, Handler, Headers, InDoubt, InEntity, Leased,
    MessageNumber, Mode, Numbered, Operation, Outcome, Policy, PolicyBuilder, PolicyError,
    RecordedBy, Refusal, Refused, Rejection, Request, State, StoreOutage, Verdict,
};
pub use message::{
    Envelope, EnvelopeBuilder, Fingerprint, FingerprintBuilder, HeaderSource, IdempotencyKey, Key,
    KeyBuilder, KeyError, KeyPart, Position, PositionKind, SequenceKey, SequencePlace, SessionKey,
    SessionNumber, SessionPlace,
};
#[cfg(feature = "sqlite")]
pub use session_storage::SqliteKeeper;
pub use session_storage::{
    FileKeeper, KeeperError, KeepingPlace, KeptRequest, KeptSession, SessionKeeper, TakenPlace,
};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use sqlx;
pub use store::{
    Begun, Claim, ClaimRequest, ConnectError, EntityError, EntityStore, Finding, Finish, Finished,
    GroupStore, Lease, Open, OpenSession, Opened, Opening, OutOfPlace, Owner, Purge, PurgeTask,
    Release, SequenceStore, SessionStore, Severity, Store, StoreError, Touched, TransactionalStore,
    Write, operator,
};
pub use stores::{AnyStore, CacheStats, Cached, CachedBuilder, MemoryStore, MemoryStoreBuilder};
#[cfg(feature = "postgres")]
pub use stores::{Migrate, PostgresStore, PostgresStoreBuilder};
#[cfg(feature = "redis")]
pub use stores::{RedisStore, RedisStoreBuilder};
#[cfg(feature = "sqlite")]
pub use stores::{SqliteStore, SqliteStoreBuilder};

#[cfg(feature = "macros")]
pub use idem_macros::{IdempotencyKeyCore as IdempotencyKey, idempotent_core as idempotent};

/// What the macros' expansion names; not part of the public API.
#[doc(hidden)]
pub mod __private {
    // The trait alone: the derive of the same name is each facade's own.
    pub use crate::handler::operation::entity::{Caused, Parts};
    pub use crate::handler::operation::numbered::{
        LONGEST_WAIT, SHORTEST_WAIT, number, numbered, numbered_key,
    };
    pub use crate::handler::operation::{Content, Returned};
    pub use crate::handler::reply::asked::{Answers, Anything, Asked, IsNone, IsRequest};
    pub use crate::message::key::IdempotencyKey as IdempotencyKeyTrait;
}

/// The instruments that `idem-amqp` counts with, too; not part of the public API.
#[doc(hidden)]
pub mod __telemetry {
    pub use crate::telemetry::{Counter, Gauge, Histogram, Label, Metric, Stopwatch};
}
