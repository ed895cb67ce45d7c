//! What is known about a store whose type is not.
//!
//! Stores promise nothing about this: those that we know are recognised.

use std::{any::Any, future::ready};

use futures_util::future::BoxFuture;
#[cfg(feature = "redis")]
use idem_core::RedisStore;
use idem_core::{AnyStore, MemoryStore, Store, store::Finding, stores::Cached};

/// Whether it forgets its keys when the process ends.
pub(crate) fn forgets(store: &impl Store) -> bool {
    recognised::<MemoryStore>(store).is_some()
}

/// Whether somebody has to purge it: Redis forgets by itself, and of others nothing is known.
pub(crate) fn is_purged(store: &impl Store) -> bool {
    #[cfg(feature = "postgres")]
    if recognised::<idem_core::PostgresStore>(store).is_some() {
        return true;
    }
    #[cfg(feature = "sqlite")]
    if recognised::<idem_core::SqliteStore>(store).is_some() {
        return true;
    }
    forgets(store)
}

/// What it finds out about its own server.
pub(crate) fn findings(store: &impl Store) -> BoxFuture<'_, Vec<Finding>> {
    #[cfg(feature = "redis")]
    if let Some(redis) = recognised::<RedisStore>(store) {
        return Box::pin(of_redis(redis));
    }
    #[cfg(feature = "postgres")]
    if let Some(postgres) = recognised::<idem_core::PostgresStore>(store) {
        return Box::pin(async { postgres.findings().await.unwrap_or_default() });
    }
    #[cfg(feature = "sqlite")]
    if let Some(sqlite) = recognised::<idem_core::SqliteStore>(store) {
        return Box::pin(async { sqlite.findings().await.unwrap_or_default() });
    }
    let _ = store;
    Box::pin(ready(Vec::new()))
}

#[cfg(feature = "redis")]
async fn of_redis(redis: &RedisStore) -> Vec<Finding> {
    redis.findings().await.unwrap_or_else(|error| {
        let text =
            format!("redis does not tell its settings ({error}); look again when it answers");
        vec![Finding::note("redis-silent", text)]
    })
}

/// The store itself, or the one behind its cache or in an [`AnyStore`].
fn recognised<S: Store>(store: &impl Store) -> Option<&S> {
    let store: &dyn Any = store;
    let behind_cache = || store.downcast_ref().map(Cached::<S>::store);
    let any = || store.downcast_ref::<AnyStore>();
    let any_behind_cache = || store.downcast_ref().map(Cached::<AnyStore>::store);
    let in_any = || any().or_else(any_behind_cache)?.downcast_ref();
    store.downcast_ref().or_else(behind_cache).or_else(in_any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_forgets_behind_a_cache_and_a_hidden_type_too() {
        let hidden = || AnyStore::new(MemoryStore::new());
        assert!(forgets(&hidden()));
        assert!(forgets(&Cached::new(hidden())));
        assert!(forgets(&MemoryStore::new()));
        assert!(forgets(&Cached::new(MemoryStore::new())));
        assert!(
            !forgets(&Cached::new(Cached::new(MemoryStore::new()))),
            "nobody does that"
        );
    }
}
