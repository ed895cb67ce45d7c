//! The stores, how they are built, and a cache in front of one.
//!
//! You need it to set more than a URL: a schema, a table, time limits, the number of connections; or
//! to put a [cache](Cached) in front of a store.
//!
//! ```
//! use idem_amqp::{MemoryStore, Worker, stores::Cached};
//!
//! let store = Cached::new(MemoryStore::new());
//! let worker = Worker::builder(store);
//! # drop(worker);
//! ```

#[doc(inline)]
pub use idem_core::stores::{
    AnyStore, CacheStats, Cached, CachedBuilder, MemoryStore, MemoryStoreBuilder, SharedCache,
};
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use idem_core::stores::{Migrate, PostgresStore, PostgresStoreBuilder};
#[cfg(feature = "redis")]
#[doc(inline)]
pub use idem_core::stores::{RedisStore, RedisStoreBuilder};
#[cfg(feature = "sqlite")]
#[doc(inline)]
pub use idem_core::stores::{SqliteStore, SqliteStoreBuilder};
