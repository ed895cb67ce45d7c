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

mod any;
mod backoff;
mod cached;
#[cfg(feature = "conformance")]
pub mod conformance;
mod context;
mod entity;
mod envelope;
mod error_chain;
mod execution;
mod executor;
mod failure;
mod finding;
mod fingerprint;
mod grouped;
mod keeper;
mod key;
mod memory;
mod numbered;
mod operation;
pub mod operator;
mod policy;
#[cfg(feature = "postgres")]
mod postgres;
mod purge;
#[cfg(feature = "redis")]
mod redis;
mod reply;
mod sequence;
mod session;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;

pub use any::AnyStore;
pub use backoff::Backoff;
pub use cached::{CacheStats, Cached, CachedBuilder};
pub use context::{
    Attempt, Context, FencingToken, FromContext, FromRef, Headers, Rejection, State,
};
pub use entity::{Entity, InEntity, RecordedBy};
pub use envelope::{Envelope, EnvelopeBuilder, HeaderSource, SessionNumber};
pub use error_chain::ErrorChain;
pub use execution::{Cause, Execution, ExecutionKind};
#[doc(hidden)]
pub use executor::Sharing;
pub use executor::{Executor, Prepared, Reports, RunsOn, Turn};
pub use failure::{Failed, Failure, Verdict};
pub use finding::{Finding, Severity};
pub use fingerprint::{Fingerprint, FingerprintBuilder};
pub use grouped::Grouped;
#[cfg(feature = "sqlite")]
pub use keeper::SqliteKeeper;
pub use keeper::{
    FileKeeper, KeeperError, KeepingPlace, KeptRequest, KeptSession, SessionKeeper, TakenPlace,
};
pub use key::{IdempotencyKey, Key, KeyBuilder, KeyError, KeyPart};
pub use memory::{MemoryStore, MemoryStoreBuilder, WhenFull};
pub use numbered::{MessageNumber, Numbered};
pub use operation::{Atomic, DecodeError, Handler, Leased, Mode, Operation};
pub use policy::{Enforcement, InDoubt, Policy, PolicyBuilder, PolicyError, StoreOutage};
#[cfg(feature = "postgres")]
pub use postgres::{Migrate, PostgresStore, PostgresStoreBuilder};
pub use purge::PurgeTask;
#[cfg(feature = "redis")]
pub use redis::{RedisStore, RedisStoreBuilder};
pub use reply::{Answer, Refusal, Refused, Request};
pub use sequence::{SequenceKey, SequencePlace, SequenceStore};
pub use session::{OpenSession, Opened, SessionKey, SessionPlace, SessionStore, Touched};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteStore, SqliteStoreBuilder};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use sqlx;
pub use store::{
    Begun, Claim, ClaimRequest, Commit, ConnectError, EntityError, EntityStore, GroupEnd,
    GroupStore, Lease, Opening, Outcome, Owner, Purge, Recording, Release, Store, StoreError,
    TransactionalStore, Write,
};

#[cfg(feature = "macros")]
pub use idem_macros::{IdempotencyKeyCore as IdempotencyKey, idempotent_core as idempotent};

/// What the macros' expansion names; not part of the public API.
#[doc(hidden)]
pub mod __private {
    // The trait alone: the derive of the same name is each facade's own.
    pub use crate::entity::{Caused, Parts};
    pub use crate::key::IdempotencyKey as IdempotencyKeyTrait;
    pub use crate::numbered::{LONGEST_WAIT, SHORTEST_WAIT, number, numbered, numbered_key};
    pub use crate::operation::{Content, Returned};
    pub use crate::reply::asked::{Answers, Anything, Asked, IsNone, IsRequest};
}

/// The instruments that `idem-amqp` counts with, too; not part of the public API.
#[doc(hidden)]
pub mod __telemetry {
    pub use crate::telemetry::{Counter, Gauge, Histogram, Label, Metric, Stopwatch};
}
