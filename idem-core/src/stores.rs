//! The stores. Each knows the contract, and no other store, but for those that are made of others.
//! Those that reach a server or a file queue their calls in the one `batcher`.

pub(crate) mod any;
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
#[cfg_attr(
    not(all(feature = "postgres", feature = "redis", feature = "sqlite")),
    allow(dead_code, reason = "each store needs a part of it")
)]
mod batcher;
pub(crate) mod cached;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod early_claims;
pub(crate) mod measured;
pub(crate) mod memory;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
#[cfg_attr(
    not(all(feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "each store needs a part of it")
)]
mod rows;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod server_clock;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
#[cfg(test)]
#[allow(dead_code, reason = "each store needs a part of it")]
mod tests;

pub use any::AnyStore;
pub use cached::{CacheStats, Cached, CachedBuilder, SharedCache};
pub use memory::{MemoryStore, MemoryStoreBuilder};
#[cfg(feature = "postgres")]
pub use postgres::{Migrate, PostgresStore, PostgresStoreBuilder};
#[cfg(feature = "redis")]
pub use redis::{RedisStore, RedisStoreBuilder};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteStore, SqliteStoreBuilder};
