//! Where a worker's store is: on servers that tests share, or on one of the test's own.

use std::{path::Path, time::Duration};

use idem_amqp::{
    PostgresStore, RedisStore, SqliteStore, Store,
    operator::{OperatorStore, ScopeCounts},
    stores::{Cached, SharedCache},
};
use idem_servers::{
    RedisSentinels,
    postgres::{self, DatabaseServer},
    redis::{self, Cluster, Node},
};
use serde::{Deserialize, Serialize};

use crate::{journal::eventually, servers::off_thread};

/// Where a worker's store is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoreAt {
    /// `sqlite:FILE`, or the URL of a server.
    pub url: String,
    /// What the names of all records in Redis begin with.
    pub prefix: String,
    /// How long the server may take to answer, in milliseconds.
    pub response_ms: u64,
    /// How long an atomic handler may run on `PostgreSQL`, in milliseconds.
    pub transaction_ms: u64,
    /// What answers copies of completed keys, so that the store need not.
    pub in_front: Option<InFront>,
}

/// What knows completed keys in front of a store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum InFront {
    /// The memory of the process.
    Memory,
    /// A Redis.
    Redis {
        /// Where it is.
        url: String,
        /// The name of what it knows.
        name: String,
    },
}

impl InFront {
    /// Under a name of its own on that Redis.
    pub fn redis(at: &StoreAt) -> Self {
        Self::Redis {
            url: at.url.clone(),
            name: at.prefix.clone(),
        }
    }
}

/// What a store is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// A file.
    Sqlite,
    /// A database of a server.
    Postgres,
    /// A prefix on a server.
    Redis,
}

impl StoreAt {
    fn new(url: String) -> Self {
        Self {
            url,
            prefix: format!("test-{:016x}", fastrand::u64(..)),
            response_ms: 5000,
            transaction_ms: 600_000,
            in_front: None,
        }
    }

    /// In this SQLite file.
    pub fn sqlite(file: &Path) -> Self {
        Self::new(format!("sqlite:{}", file.display()))
    }

    /// In a database of its own on the `PostgreSQL` that tests share.
    pub async fn postgres() -> Self {
        let server = off_thread(postgres::shared).await;
        Self::postgres_on(server).await
    }

    /// In a database of its own on this `PostgreSQL`.
    pub async fn postgres_on(server: &DatabaseServer) -> Self {
        let (server, name) = (server.clone(), format!("test_{:016x}", fastrand::u64(..)));
        Self::new(off_thread(move || server.create_database(&name)).await)
    }

    /// In a database of its own on the small disk of this `PostgreSQL`.
    pub async fn postgres_on_disk(server: &DatabaseServer) -> Self {
        let (server, name) = (server.clone(), format!("test_{:016x}", fastrand::u64(..)));
        Self::new(off_thread(move || server.create_database_on_disk(&name)).await)
    }

    /// Under a prefix of its own on the Redis that tests share.
    pub async fn redis() -> Self {
        Self::redis_on(off_thread(redis::shared).await)
    }

    /// Under a prefix of its own on this Redis.
    pub fn redis_on(server: &Node) -> Self {
        Self::new(server.url())
    }

    /// Under a prefix of its own on the Redis Cluster that tests share.
    pub async fn redis_cluster() -> Self {
        Self::redis_cluster_of(off_thread(redis::shared_cluster).await)
    }

    /// Under a prefix of its own on this Redis Cluster.
    pub fn redis_cluster_of(cluster: &Cluster) -> Self {
        Self::new(cluster.url())
    }

    /// Under a prefix of its own on the primary that these sentinels name.
    pub fn redis_by(sentinels: &RedisSentinels) -> Self {
        Self::new(sentinels.url())
    }

    /// The same by way of another port.
    #[must_use]
    pub fn by(&self, port: u16) -> Self {
        let (before, after) = self
            .url
            .rsplit_once(':')
            .expect("a server's URL has a port");
        let path = after.trim_start_matches(|c: char| c.is_ascii_digit());
        Self {
            url: format!("{before}:{port}{path}"),
            ..self.clone()
        }
    }

    /// The same with this patience.
    #[must_use]
    pub fn answering_within(&self, milliseconds: u64) -> Self {
        Self {
            response_ms: milliseconds,
            ..self.clone()
        }
    }

    /// The same with this limit for atomic handlers.
    #[must_use]
    pub fn keeping_transactions_open_for(&self, milliseconds: u64) -> Self {
        Self {
            transaction_ms: milliseconds,
            ..self.clone()
        }
    }

    /// The same with this in front of it.
    #[must_use]
    pub fn behind(&self, in_front: InFront) -> Self {
        Self {
            in_front: Some(in_front),
            ..self.clone()
        }
    }

    /// What it is made of.
    pub fn product(&self) -> Product {
        match self.url.split(':').next() {
            Some("sqlite") => Product::Sqlite,
            Some("redis" | "rediss" | "redis+cluster" | "redis+sentinel") => Product::Redis,
            _ => Product::Postgres,
        }
    }

    /// Opens the SQLite file, waiting for it.
    pub async fn open_sqlite(&self) -> SqliteStore {
        // A machine that runs all tests at once lets some handler wait for its turn to write for longer than 10 s.
        let patient = || SqliteStore::builder(&self.url).busy_timeout(Duration::from_mins(1));
        eventually("a SQLite file", || patient().build()).await
    }

    /// Connects to `PostgreSQL`, waiting for it.
    pub async fn open_postgres(&self) -> PostgresStore {
        eventually("a PostgreSQL that answers", || {
            PostgresStore::builder(&self.url)
                .response_timeout(self.response_timeout())
                .transaction_timeout(Duration::from_millis(self.transaction_ms))
                .build()
        })
        .await
    }

    /// Connects to Redis, waiting for it.
    pub async fn open_redis(&self) -> RedisStore {
        eventually("a Redis that answers", || {
            let store = RedisStore::builder(&self.url).prefix(&self.prefix);
            store.response_timeout(self.response_timeout()).build()
        })
        .await
    }

    /// The open store with what is in front of it: until the end of their retention it knows the completed keys.
    ///
    /// # Panics
    /// If nothing is.
    pub fn cached<S: Store>(&self, store: S) -> Cached<S> {
        let cached = Cached::builder(store).longest(Duration::MAX);
        match self.in_front.as_ref().expect("something is in front of it") {
            InFront::Memory => cached.build(),
            InFront::Redis { url, name } => cached.shared(shared(url, name)).build(),
        }
    }

    /// Waits until so many keys are recorded in it.
    pub async fn until_recorded(&self, keys: u64) {
        match self.product() {
            Product::Sqlite => until_recorded(&self.open_sqlite().await, keys).await,
            Product::Postgres => until_recorded(&self.open_postgres().await, keys).await,
            Product::Redis => until_recorded(&self.open_redis().await, keys).await,
        }
    }

    fn response_timeout(&self) -> Duration {
        Duration::from_millis(self.response_ms)
    }
}

fn shared(url: &str, name: &str) -> SharedCache {
    let cache = RedisStore::builder(url).cache(name);
    let cache = cache.expect("a URL of Redis, and a name that may be a prefix");
    cache.within(Duration::from_millis(250))
}

async fn until_recorded(store: &impl OperatorStore, keys: u64) {
    eventually("the keys are recorded", async || {
        let scopes = store.counts().await.map_err(|error| error.to_string())?;
        let recorded: u64 = scopes.iter().map(keys_of).sum();
        if recorded == keys {
            Ok(())
        } else {
            Err(format!("{recorded} keys"))
        }
    })
    .await;
}

fn keys_of(scope: &ScopeCounts) -> u64 {
    scope.in_progress + scope.completed + scope.failed
}
