//! Redis: private servers from the installed programs, one by itself or three as a cluster.

mod cluster;
mod layout;
mod no_writes;
mod node;
mod sentinels;
mod wire;

use std::path::{Path, PathBuf};

pub(crate) use self::layout::Mode;
pub use self::{
    cluster::{Cluster, RedisCluster},
    no_writes::NoWrites,
    node::Node,
    sentinels::RedisSentinels,
};
use super::{
    Installed, Private, Server,
    shared::{AtUrl, Shared},
};
use crate::Result;

/// The variable with which `cargo xtask test` hands the folder of its Redis to test binaries.
pub const FOLDER_VARIABLE: &str = "IDEM_TEST_REDIS";

/// The variable with which `cargo xtask test` hands the folders of its Redis Cluster to test binaries.
pub const CLUSTER_FOLDERS_VARIABLE: &str = "IDEM_TEST_REDIS_CLUSTER";

/// A Redis of one's own: its port, its data, its processes; gone when dropped.
///
/// It keeps nothing over a restart unless the settings say so: `("appendonly", "yes")`.
pub type Redis = Private<Node>;

impl Private<Node> {
    /// Starts a server and waits until it accepts commands.
    ///
    /// # Errors
    ///
    /// Redis is not installed, or did not come up; the end of its log is in the error.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// As [`start`](Self::start), with lines for `redis.conf` that win over ours.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); a setting that Redis does not accept is one of them.
    pub fn start_with(settings: &[(&str, &str)]) -> Result<Self> {
        let installed = installed()?;
        Self::create(|folder| Node::lay_out(folder, &installed, Mode::Single, settings))
    }
}

/// The server that ordinary tests share: the one of `cargo xtask test` if it runs us, else the one that `REDIS_URL`
/// names, else one of our own, started on the first call and gone with this process.
///
/// Isolate tests from each other by a key prefix each.
///
/// # Errors
///
/// As [`Redis::start`].
pub fn shared() -> Result<&'static Node> {
    static SHARED: Shared<Redis> = Shared::new();
    SHARED.get(
        FOLDER_VARIABLE,
        |folder| Node::attach(Path::new(folder)),
        Some(AtUrl {
            variable: "REDIS_URL",
            like: "redis://127.0.0.1:PORT/",
            server: |port| Ok(Node::at(port)),
        }),
        Redis::start,
    )
}

/// The cluster that ordinary tests share, as [`shared`].
///
/// # Errors
///
/// As [`RedisCluster::start`].
pub fn shared_cluster() -> Result<&'static Cluster> {
    static SHARED: Shared<RedisCluster> = Shared::new();
    SHARED.get(
        CLUSTER_FOLDERS_VARIABLE,
        Cluster::attach,
        None,
        RedisCluster::start,
    )
}

pub(crate) fn installed() -> Result<Installed> {
    let usual = [PathBuf::from("/usr/bin")];
    Installed::find("Redis", usual, &["redis-server", "redis-cli"])
}
