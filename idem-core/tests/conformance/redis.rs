//! `RedisStore` on a server and on a cluster that all cases share, each with a prefix of its own,
//! opened twice, as by two processes.

use std::time::Duration;

use idem_core::{RedisStore, store::Owner};
use idem_servers::redis;
use idem_testing::conformance::{DurableHarness, Harness, WorkerClockHarness};

use super::twice::Twice;

/// Runs the cases on one server.
pub(crate) struct RedisHarness {
    url: String,
    prefix: String,
    stores: Twice<RedisStore>,
}

impl RedisHarness {
    async fn on(url: String) -> Self {
        let unique = u128::from_be_bytes(*Owner::new().as_bytes());
        let prefix = format!("{unique:x}");
        let stores = [open(&url, &prefix).await, open(&url, &prefix).await];
        Self {
            url,
            prefix,
            stores: Twice::of(stores),
        }
    }
}

impl Harness for RedisHarness {
    type Store = RedisStore;

    async fn start() -> Self {
        let server = redis::shared().expect("Redis can be started");
        Self::on(server.url()).await
    }

    fn store(&self) -> RedisStore {
        self.stores.next()
    }

    async fn advance(&self, by: Duration) {
        self.stores.advance(by, RedisStore::advance);
    }
}

impl WorkerClockHarness for RedisHarness {}

impl DurableHarness for RedisHarness {
    async fn reopen(&self) {
        let open = || open(&self.url, &self.prefix);
        let stores = [open().await, open().await];
        self.stores.reopen(stores, RedisStore::advance);
    }
}

/// Runs the cases on a cluster of three primaries.
pub(crate) struct RedisClusterHarness(RedisHarness);

impl Harness for RedisClusterHarness {
    type Store = RedisStore;

    async fn start() -> Self {
        let cluster = redis::shared_cluster().expect("a Redis Cluster can be started");
        Self(RedisHarness::on(cluster.url()).await)
    }

    fn store(&self) -> RedisStore {
        self.0.store()
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by).await;
    }
}

impl WorkerClockHarness for RedisClusterHarness {}

impl DurableHarness for RedisClusterHarness {
    async fn reopen(&self) {
        self.0.reopen().await;
    }
}

async fn open(url: &str, prefix: &str) -> RedisStore {
    let store = RedisStore::builder(url)
        .prefix(prefix)
        // Many tests share the server and the processors. None of these is about a server that is silent.
        .response_timeout(Duration::from_secs(10));
    let store = store.build().await;
    store.expect("Redis answers")
}
