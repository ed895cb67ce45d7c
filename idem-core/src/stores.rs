//! The stores. Each knows the contract, and no other store, but for those that are made of others.

pub(crate) mod any;
pub(crate) mod cached;
pub(crate) mod measured;
pub(crate) mod memory;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

pub use any::AnyStore;
pub use cached::{CacheStats, Cached, CachedBuilder};
pub use memory::{MemoryStore, MemoryStoreBuilder};
#[cfg(feature = "postgres")]
pub use postgres::{Migrate, PostgresStore, PostgresStoreBuilder};
#[cfg(feature = "redis")]
pub use redis::{RedisStore, RedisStoreBuilder};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteStore, SqliteStoreBuilder};
