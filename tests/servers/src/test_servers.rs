//! Servers that test programs share, started before them.

use std::process::Command;

use crate::{Postgres, RabbitMq, Redis, RedisCluster, Server, postgres, rabbitmq, redis};

/// Those that could be started. Without a server the tests that need it start their own, or fail and say how to get it;
/// the others run.
#[derive(Debug, Default)]
pub struct TestServers {
    /// A broker.
    pub rabbitmq: Option<RabbitMq>,
    /// A database server.
    pub postgres: Option<Postgres>,
    /// A single Redis.
    pub redis: Option<Redis>,
    /// Several that share the keys.
    pub cluster: Option<RedisCluster>,
}

impl TestServers {
    /// Tells a test program where the servers are.
    pub fn hand_to(&self, tests: &mut Command) {
        if let Some(rabbitmq) = &self.rabbitmq {
            tests.env(rabbitmq::FOLDER_VARIABLE, rabbitmq.folder());
        }
        if let Some(postgres) = &self.postgres {
            tests.env(postgres::FOLDER_VARIABLE, postgres.folder());
        }
        if let Some(redis) = &self.redis {
            tests.env(redis::FOLDER_VARIABLE, redis.folder());
        }
        if let Some(cluster) = &self.cluster {
            tests.env(redis::CLUSTER_FOLDERS_VARIABLE, cluster.folders());
        }
    }
}
