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
//! # Ok::<_, idem_core::message::KeyError>(()) }).unwrap();
//! ```
//!
//! Consumers of RabbitMQ use `idem-amqp`, which re-exports all of this.
//!
//! | feature | adds |
//! |---|---|
//! | `macros` (default) | `#[idempotent]`, `#[derive(IdempotencyKey)]` and `#[derive(FromRef)]` |
//! | `sqlite` | `SqliteStore`, and handlers that take `&mut SqliteConnection` |
//! | `postgres` | `PostgresStore`, and handlers that take `&mut PgConnection` |
//! | `redis` | `RedisStore` |
//! | `rustls` | TLS to the servers of these stores: `rediss://`, and `sslmode` of `postgres://` |
//! | `uuid` | `uuid::Uuid` as a part of a key |
//! | `anyhow` | handlers that return `anyhow::Result` |
//! | `metrics` | counters, gauges and histograms for the facade `metrics`; `docs/operations.md` lists them |
//! | `testing` | what `idem-testing` stands on: clocks of stores that a test moves; not for production |

/// For tests: holds a value to a pattern, and shows the value where it is another. As std's, which is not stable yet.
#[cfg(test)]
macro_rules! assert_matches {
    ($value:expr, $($pattern:tt)+) => {
        match $value {
            $($pattern)+ => {}
            ref other => panic!("{other:?}"),
        }
    };
}

mod error_chain;
pub mod executor;
mod futures;
pub mod handler;
pub mod message;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod model;
mod random;
pub mod session_storage;
pub mod settlement;
pub mod store;
pub mod stores;
mod telemetry;

pub use error_chain::ErrorChain;
pub use executor::{Execution, Executor, Prepared};
pub use handler::{
    Attempt, Batch, Failed, Failure, FencingToken, FromContext, FromRef, Headers, Outcome, Policy,
    Refused, Request, State, Verdict,
};
pub use message::{Envelope, IdempotencyKey, Key};
#[cfg(feature = "redis")]
pub use redis;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use sqlx;
pub use store::{Store, StoreError, operator};
#[cfg(feature = "postgres")]
pub use stores::PostgresStore;
#[cfg(feature = "redis")]
pub use stores::RedisStore;
#[cfg(feature = "sqlite")]
pub use stores::SqliteStore;
pub use stores::{AnyStore, MemoryStore};

#[cfg(feature = "macros")]
pub use idem_macros::{
    FromRefCore as FromRef, IdempotencyKeyCore as IdempotencyKey, idempotent_core as idempotent,
};

/// What the macros' expansion names; not part of the public API.
#[doc(hidden)]
pub mod __private {
    // The traits alone: the derives of the same names are each facade's own.
    pub use crate::handler::FromRef as FromRefTrait;
    pub use crate::handler::batch::{
        BatchReturned, batch_of_one, outboxes, result_of_one, results,
    };
    pub use crate::handler::context::outbox;
    pub use crate::handler::operation::recorded_by::{Caused, Parts};
    pub use crate::handler::operation::sequence::{
        LONGEST_WAIT, SHORTEST_WAIT, number, numbered, numbered_key,
    };
    pub use crate::handler::operation::{Content, Header, Returned};
    pub use crate::handler::reply::asked::{Answers, Anything, Asked, IsNone, IsRequest};
    pub use crate::message::key::IdempotencyKey as IdempotencyKeyTrait;
}

/// The instruments that `idem-amqp` counts with, too; not part of the public API.
#[doc(hidden)]
pub mod __telemetry {
    pub use crate::telemetry::{Counter, Gauge, Histogram, Label, LogLines, Metric, Stopwatch};
}
