//! Servers for measurements, each set up as one would be in production.

use idem_servers::{Postgres, RabbitMq, Redis, RedisCluster, Result, install};

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

pub(super) fn postgres() -> Result<Postgres> {
    install::installed_postgres()?;
    Postgres::start_with(&POSTGRES)
}

pub(super) fn redis() -> Result<Redis> {
    install::installed_redis()?;
    Redis::start_with(&REDIS)
}

pub(super) fn redis_cluster() -> Result<RedisCluster> {
    install::installed_redis()?;
    RedisCluster::start_with(&REDIS)
}

pub(super) fn rabbitmq() -> Result<RabbitMq> {
    install::installed_rabbitmq()?;
    RabbitMq::start_as_in_production()
}
