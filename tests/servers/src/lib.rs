//! Private servers on free ports, in folders of their own, that end with whoever started them.
//!
//! Each server is watched by a small shell, which kills all its processes and removes the folder as
//! soon as its standard input closes: also when the owner was killed with `kill -9`.
//!
//! | module | one's own | what can be asked of a running one |
//! |---|---|---|
//! | [`rabbitmq`] | [`RabbitMq`], [`RabbitMqCluster`] | [`Broker`] |
//! | [`postgres`] | [`Postgres`] | [`DatabaseServer`](postgres::DatabaseServer) |
//! | [`redis`] | [`Redis`] | [`Node`](redis::Node) |
//! | [`redis`] | [`RedisCluster`] | [`Cluster`](redis::Cluster) |
//! | [`redis`] | [`RedisSentinels`] | |
//! | [`pgbouncer`] | [`PgBouncer`] | [`Pooler`](pgbouncer::Pooler) |
//!
//! [`example`] runs programs on them, [`development`] keeps some until they are taken down, [`install`] makes sure that
//! they can be started at all.

mod client;
mod detached;
pub mod development;
mod error;
pub mod example;
mod given;
pub mod install;
mod installed;
pub mod pgbouncer;
mod ports;
pub mod postgres;
mod private;
mod probe;
mod process_group;
pub mod rabbitmq;
pub mod redis;
mod server;
mod shared;
mod test_servers;
mod unprivileged;
mod url;
mod watchdog;

pub use error::{Error, Result};
pub use installed::Installed;
pub use pgbouncer::PgBouncer;
pub use ports::free_ports;
pub use postgres::Postgres;
pub use private::Private;
pub use rabbitmq::{Broker, QueueState, RabbitMq, RabbitMqCluster};
pub use redis::{Redis, RedisCluster, RedisSentinels};
pub use server::Server;
pub use test_servers::TestServers;
