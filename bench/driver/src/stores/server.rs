//! The server of one measurement.

use super::super::{StoreKind, server};
use idem_servers::{Postgres, Redis, RedisCluster, Result};

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
            StoreKind::Postgres => Self::Postgres(server::postgres()?),
            StoreKind::Redis => Self::Redis(server::redis()?),
            StoreKind::RedisCluster => Self::RedisCluster(server::redis_cluster()?),
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
