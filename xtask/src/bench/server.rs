//! A server for one measurement, set up as one would be in production.

use super::StoreKind;
use crate::{
    Result, install,
    services::{Postgres, Redis, RedisCluster},
};

/// What is written is on disk when it is answered, as PostgreSQL has it by default.
const POSTGRES: [(&str, &str); 5] = [
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("shared_buffers", "256MB"),
    ("max_wal_size", "4GB"),
    ("max_connections", "100"),
];
/// What is written is on disk a second or two after it is answered, as most have it.
const REDIS: [(&str, &str); 2] = [("appendonly", "yes"), ("appendfsync", "everysec")];

/// An empty server, gone when dropped.
#[derive(Debug)]
pub(crate) enum BenchServer {
    /// The store needs none.
    None,
    Postgres(Postgres),
    Redis(Redis),
    RedisCluster(RedisCluster),
}

impl BenchServer {
    pub(crate) fn start(store: StoreKind) -> Result<Self> {
        Ok(match store {
            StoreKind::Memory | StoreKind::Sqlite => Self::None,
            StoreKind::Postgres => {
                install::installed_postgres()?;
                Self::Postgres(Postgres::start_with(&POSTGRES)?)
            }
            StoreKind::Redis => {
                install::installed_redis()?;
                Self::Redis(Redis::start_with(&REDIS)?)
            }
            StoreKind::RedisCluster => {
                install::installed_redis()?;
                Self::RedisCluster(RedisCluster::start_with(&REDIS)?)
            }
        })
    }

    pub(crate) fn url(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Postgres(server) => Some(server.url()),
            Self::Redis(server) => Some(server.url()),
            Self::RedisCluster(cluster) => Some(cluster.url()),
        }
    }
}
