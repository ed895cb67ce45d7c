//! A primary, its replica, and three sentinels that let the replica take its place.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use super::{Mode, Node, Redis, installed};
use crate::{Error, Result};

const SENTINELS: usize = 3;
const LIMIT: Duration = Duration::from_mins(2);

/// Two servers of one's own and the sentinels that watch them; gone when dropped.
///
/// A second after the primary has fallen silent the sentinels let the other server take its place.
#[derive(Debug)]
pub struct RedisSentinels {
    servers: [Redis; 2],
    sentinels: Vec<Redis>,
}

impl RedisSentinels {
    /// What the sentinels call the primary.
    pub const NAME: &str = "orders";

    /// Starts all of them, and waits until the sentinels know the replica and each other.
    ///
    /// # Errors
    ///
    /// Redis is not installed, or one of them did not come up.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// As [`start`](Self::start), with sentinels that ask each other and their clients for this password.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_asking_for(password: &str) -> Result<Self> {
        let to_each_other = format!("sentinel-pass {password}");
        Self::start_with(&[("requirepass", password), ("sentinel", &to_each_other)])
    }

    fn start_with(further: &[(&str, &str)]) -> Result<Self> {
        let quick = ("repl-diskless-sync-delay", "0");
        let primary = Redis::start_with(&[quick])?;
        let at = format!("127.0.0.1 {}", primary.port());
        let replica = Redis::start_with(&[quick, ("replicaof", &at)])?;
        let installed = installed()?;
        let (name, of) = (Self::NAME, |what: &str| format!("{what} {}", Self::NAME));
        let settings = [
            ("sentinel", format!("monitor {name} {at} 2")),
            (
                "sentinel",
                format!("{} 1000", of("down-after-milliseconds")),
            ),
            ("sentinel", format!("{} 5000", of("failover-timeout"))),
        ];
        let settings = settings.iter().map(|(name, value)| (*name, &**value));
        let settings: Vec<_> = settings.chain(further.iter().copied()).collect();
        let sentinel = |_| {
            Redis::create(|folder| Node::lay_out(folder, &installed, Mode::Sentinel, &settings))
        };
        let watched = Self {
            servers: [primary, replica],
            sentinels: (0..SENTINELS).map(sentinel).collect::<Result<_>>()?,
        };
        until("the sentinels know the replica and each other", || {
            watched.sentinels.iter().all(|sentinel| {
                let knows = |what: &str| {
                    let known = sentinel.ask(["SENTINEL", what, name]);
                    let known = known.unwrap_or_default();
                    known.lines().filter(|line| *line == "runid").count()
                };
                knows("REPLICAS") == 1 && knows("SENTINELS") == SENTINELS - 1
            })
        })?;
        until("the replica has caught up", || {
            let info = watched.servers[1].ask(["INFO", "replication"]);
            info.is_ok_and(|info| info.contains("master_link_status:up"))
        })?;
        Ok(watched)
    }

    /// The URL that names the sentinels.
    pub fn url(&self) -> String {
        let address = |node: &Redis| format!("127.0.0.1:{}", node.port());
        let addresses: Vec<_> = self.sentinels.iter().map(address).collect();
        format!("redis+sentinel://{}/{}", addresses.join(","), Self::NAME)
    }

    /// The servers: first the one that was the primary at the start.
    pub fn servers(&self) -> &[Redis; 2] {
        &self.servers
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// Waits until all sentinels that run name this server.
    ///
    /// # Errors
    ///
    /// They do not within two minutes.
    pub fn wait_until_primary(&self, server: &Redis) -> Result<()> {
        let port = server.port().to_string();
        until("the sentinels name the other server", || {
            let named = self.sentinels.iter().filter_map(|sentinel| {
                let asked = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::NAME];
                sentinel.ask(asked).ok()
            });
            let named: Vec<_> = named.collect();
            let is_primary = server
                .ask(["ROLE"])
                .is_ok_and(|role| role.starts_with("master"));
            let all = named
                .iter()
                .all(|named| named.lines().nth(1) == Some(&port));
            is_primary && !named.is_empty() && all
        })
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        if Instant::now() > deadline {
            let refusal = io::Error::from(io::ErrorKind::TimedOut);
            return Err(Error::io(format!("see that {what} within two minutes"))(
                refusal,
            ));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
