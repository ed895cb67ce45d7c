//! Redis Cluster: three masters that share the slots among them, without replicas.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    ops::Deref,
    thread,
    time::{Duration, Instant},
};

use super::{Mode, Node, Redis, installed};
use crate::{Error, Result, Server};

const NODES: usize = 3;
const SLOTS: usize = 16_384;
const FORMATION_LIMIT: Duration = Duration::from_mins(1);

/// A Redis Cluster of one's own: three masters, gone when dropped.
///
/// While one of them is away the others soon answer `CLUSTERDOWN` for all keys, as Redis does by
/// default: `("cluster-require-full-coverage", "no")` keeps their own keys available.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
    cluster: Cluster,
}

/// A running Redis Cluster, started by us or by another process.
#[derive(Clone, Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
}

impl RedisCluster {
    /// Starts three masters, gives them their slots, and waits until all of them call the cluster sound.
    ///
    /// # Errors
    ///
    /// Redis is not installed or older than 7, or a node did not come up.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// As [`start`](Self::start), with lines for the `redis.conf` of each node that win over ours.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with(settings: &[(&str, &str)]) -> Result<Self> {
        let installed = installed()?;
        let start = |_| {
            Redis::create(|folder| {
                Node::lay_out(folder, &installed, Mode::NodeOfACluster, settings)
            })
        };
        let nodes = (0..NODES).map(start).collect::<Result<Vec<_>>>()?;
        let cluster = Cluster {
            nodes: nodes.iter().map(|node| Node::clone(node)).collect(),
        };
        cluster.form()?;
        Ok(Self { nodes, cluster })
    }

    /// The nodes, to be killed, frozen and restarted one by one. After that,
    /// [`wait_until_sound`](Cluster::wait_until_sound) waits for the others to notice.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }
}

impl Deref for RedisCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Cluster {
    /// Reads back what [`folders`](Self::folders) says.
    pub(crate) fn attach(folders: &OsStr) -> Result<Self> {
        let nodes = env::split_paths(folders).map(|folder| Node::attach(&folder));
        Ok(Self {
            nodes: nodes.collect::<Result<_>>()?,
        })
    }

    /// The folders of its nodes, separated as in `PATH`.
    pub fn folders(&self) -> OsString {
        let folders = self.nodes.iter().map(Node::folder);
        env::join_paths(folders).expect("no temporary folder has a colon in its name")
    }

    /// The URL that names all nodes.
    pub fn url(&self) -> String {
        let address = |node: &Node| format!("127.0.0.1:{}", node.port());
        let addresses: Vec<_> = self.nodes.iter().map(address).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    /// Its nodes, the first slots first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Whether every node answers, knows all others and sees every slot served.
    pub fn is_sound(&self) -> bool {
        self.nodes.iter().all(|node| {
            node.ask(["CLUSTER", "INFO"]).is_ok_and(|info| {
                let says = |line: &str| info.lines().any(|said| said == line);
                says("cluster_state:ok")
                    && says(&format!("cluster_slots_ok:{SLOTS}"))
                    && says(&format!("cluster_known_nodes:{NODES}"))
            })
        })
    }

    /// Waits until [`is_sound`](Self::is_sound); a frozen node is waited for until it is thawed.
    ///
    /// # Errors
    ///
    /// That was not so within a minute.
    pub fn wait_until_sound(&self) -> Result<()> {
        let deadline = Instant::now() + FORMATION_LIMIT;
        while !self.is_sound() {
            if Instant::now() > deadline {
                let refusal = io::Error::from(io::ErrorKind::TimedOut);
                return Err(Error::io("see the Redis Cluster sound within a minute")(
                    refusal,
                ));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Moves so many slots, with the keys that are in them, from one node to another while both serve them.
    ///
    /// # Errors
    ///
    /// A node does not do as it is told.
    pub fn move_slots(&self, from: usize, to: usize, slots: usize) -> Result<()> {
        let id = |node: usize| self.nodes[node].ask(["CLUSTER", "MYID"]);
        let (from_id, to_id) = (id(from)?, id(to)?);
        let address = format!("127.0.0.1:{}", self.nodes[from].port());
        let slots = slots.to_string();
        let mut reshard = self.nodes[from].tool();
        reshard
            .args(["--cluster", "reshard", &address, "--cluster-yes"])
            .args([
                "--cluster-from",
                from_id.trim(),
                "--cluster-to",
                to_id.trim(),
            ])
            .args(["--cluster-slots", &slots]);
        let done = reshard.output().map_err(Error::io("run redis-cli"))?;
        if !done.status.success() {
            return Err(Error::command("redis-cli --cluster reshard", &done));
        }
        self.wait_until_sound()
    }

    fn form(&self) -> Result<()> {
        for (index, node) in self.nodes.iter().enumerate() {
            let [first, last] = slots(index).map(|slot| slot.to_string());
            node.ask(["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
            // Distinct from the start: nodes that begin alike have to agree on an order first.
            node.ask(["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
        }
        for node in &self.nodes[1..] {
            let [port, bus_port] = [node.port(), node.bus_port()].map(|port| port.to_string());
            self.nodes[0].ask(["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port])?;
        }
        self.wait_until_sound()
    }
}

/// The first and the last slot of a node.
fn slots(index: usize) -> [usize; 2] {
    [index * SLOTS / NODES, (index + 1) * SLOTS / NODES - 1]
}

#[cfg(test)]
mod tests {
    use super::slots;

    #[test]
    fn every_slot_has_one_node() {
        assert_eq!(
            [0, 1, 2].map(slots),
            [[0, 5460], [5461, 10_921], [10_922, 16_383]]
        );
    }
}
