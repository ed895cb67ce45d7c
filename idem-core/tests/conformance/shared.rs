//! A cache in Redis, under a name of its own, that knows keys up to their retention.

use std::time::Duration;

use idem_core::{
    RedisStore, Store,
    store::Owner,
    stores::{Cached, SharedCache},
};
use idem_servers::redis;

use crate::cached_harness::Where;

/// In Redis.
pub(crate) struct InRedis(SharedCache);

impl Where for InRedis {
    async fn create() -> Self {
        let server = redis::shared().expect("Redis can be started");
        let name = format!("{:x}", u128::from_be_bytes(*Owner::new().as_bytes()));
        let cache = RedisStore::builder(&server.url()).cache(&name);
        // The machine of the tests is busy.
        Self(cache.expect("it is a name").within(Duration::from_secs(10)))
    }

    fn cache<S: Store>(&self, store: S) -> Cached<S> {
        Cached::builder(store)
            .shared(self.0.clone())
            .longest(Duration::MAX)
            .build()
    }

    fn advance(&self, by: Duration) {
        self.0.advance(by);
    }
}
