//! Stores that are made of others: Redis Cluster, a cache in front of a store, Redis in front of `PostgreSQL`.

use std::future::Future;

use idem_amqp::{PostgresStore, RedisStore, stores::Cached};

use super::{Cell, Charging, On, Opened, charge, charge_in_postgres};
use crate::{
    ledger::Ledger,
    process::Mode,
    store_at::{InFront, StoreAt},
};

/// On a Redis Cluster that tests share.
pub type LeasedOnRedisCluster = On<RedisCluster, charge>;
/// Copies are answered from this process's memory, and all else is in `PostgreSQL`.
pub type LeasedBehindACacheOnPostgres = On<CacheOnPostgres, charge>;
/// The same in Redis.
pub type LeasedBehindACacheOnRedis = On<CacheOnRedis, charge>;
/// Copies are answered by Redis, and all else is in `PostgreSQL`.
pub type LeasedBehindRedis = On<RedisOnPostgres, charge>;
/// Charge and record commit together in `PostgreSQL`; copies are answered from memory.
pub type AtomicBehindACache = On<CacheOnPostgres, charge_in_postgres>;
/// Charge and record commit together in `PostgreSQL`; copies are answered by Redis.
pub type AtomicBehindRedis = On<RedisOnPostgres, charge_in_postgres>;

/// A cell whose store a worker's process can open, too.
pub trait Further: Cell {
    /// How a process charges there.
    const MODE: Mode;

    /// An empty store.
    fn at() -> impl Future<Output = StoreAt>;
}

/// Where a store of its kind is.
pub trait Located {
    /// An empty one.
    fn at() -> impl Future<Output = StoreAt>;
}

impl<S: Opened + Located, H: Charging> Further for On<S, H>
where
    Self: Cell,
{
    const MODE: Mode = if H::COMMITS {
        Mode::Atomic
    } else {
        Mode::Leased
    };

    async fn at() -> StoreAt {
        S::at().await
    }
}

/// Three servers that share the keys.
#[derive(Debug)]
pub enum RedisCluster {}

/// `PostgreSQL`, behind a cache in this process.
#[derive(Debug)]
pub enum CacheOnPostgres {}

/// Redis, behind a cache in this process.
#[derive(Debug)]
pub enum CacheOnRedis {}

/// `PostgreSQL`, behind a cache in Redis.
#[derive(Debug)]
pub enum RedisOnPostgres {}

impl Located for RedisCluster {
    async fn at() -> StoreAt {
        StoreAt::redis_cluster().await
    }
}

impl Located for CacheOnPostgres {
    async fn at() -> StoreAt {
        StoreAt::postgres().await.behind(InFront::Memory)
    }
}

impl Located for CacheOnRedis {
    async fn at() -> StoreAt {
        StoreAt::redis().await.behind(InFront::Memory)
    }
}

impl Located for RedisOnPostgres {
    async fn at() -> StoreAt {
        let first = InFront::redis(&StoreAt::redis().await);
        StoreAt::postgres().await.behind(first)
    }
}

impl Opened for RedisCluster {
    type Store = RedisStore;

    async fn open() -> (RedisStore, Option<Ledger>) {
        (Self::at().await.open_redis().await, None)
    }
}

impl Opened for CacheOnPostgres {
    type Store = Cached<PostgresStore>;

    async fn open() -> (Self::Store, Option<Ledger>) {
        cached_postgres(&Self::at().await).await
    }
}

impl Opened for CacheOnRedis {
    type Store = Cached<RedisStore>;

    async fn open() -> (Self::Store, Option<Ledger>) {
        let at = Self::at().await;
        (at.cached(at.open_redis().await), None)
    }
}

impl Opened for RedisOnPostgres {
    type Store = Cached<PostgresStore>;

    async fn open() -> (Self::Store, Option<Ledger>) {
        cached_postgres(&Self::at().await).await
    }
}

async fn cached_postgres(at: &StoreAt) -> (Cached<PostgresStore>, Option<Ledger>) {
    let ledger = Ledger::of(at).await;
    (at.cached(at.open_postgres().await), Some(ledger))
}

/// Makes six more tests of each function `async fn name<C: Cell>()`, or `<C: Further>`: leased on Redis Cluster, behind
/// a cache and behind Redis, and atomic behind either. Each is `on_further_stores::name::leased_on_redis_cluster` and
/// the like.
#[macro_export]
macro_rules! on_further_stores {
    ($($name:ident,)+) => {
        mod on_further_stores { $(
            mod $name {
                use super::super::$name as body;

                $crate::on_cells! {
                    leased_on_redis_cluster LeasedOnRedisCluster,
                    leased_behind_a_cache_on_postgres LeasedBehindACacheOnPostgres,
                    leased_behind_a_cache_on_redis LeasedBehindACacheOnRedis,
                    leased_behind_redis LeasedBehindRedis,
                    atomic_behind_a_cache AtomicBehindACache,
                    atomic_behind_redis AtomicBehindRedis,
                }
            }
        )+ }
    };
}
