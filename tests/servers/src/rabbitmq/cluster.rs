//! Three brokers in one cluster, each to be killed, frozen and restarted by itself.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use super::{Program, RabbitMq, cluster_membership::ClusterMembership, port_mapper::PortMapper};
use crate::{Error, Private, Result, Server};

const NODES: usize = 3;
const LIMIT: Duration = Duration::from_mins(3);

/// A RabbitMQ cluster of one's own: three nodes, gone when dropped.
///
/// A quorum queue has a replica on each of them, and its leader where its declarer is connected.
/// A node that is killed is missed at once, one that is frozen after some eight seconds; when it
/// is thawed after that, the others may have it restart, which closes its connections.
#[derive(Debug)]
pub struct RabbitMqCluster {
    nodes: Vec<RabbitMq>,
    // Dropped after the nodes, which find each other through it.
    _mapper: Private<PortMapper>,
}

impl RabbitMqCluster {
    /// Starts three brokers, lets two of them join the first, and waits until all see all.
    ///
    /// # Errors
    ///
    /// As [`RabbitMq::start`]; or they did not become one cluster within three minutes.
    pub fn start() -> Result<Self> {
        let program = Program::wanted()?;
        let mapper = Private::create(|folder| PortMapper::lay_out(folder, &program))?;
        let membership = ClusterMembership::around(mapper.port());
        let start = || RabbitMq::of(&program, &membership);
        let nodes = thread::scope(|scope| {
            let starting: Vec<_> = (0..NODES).map(|_| scope.spawn(start)).collect();
            let started = starting
                .into_iter()
                .map(|node| node.join().expect("starting a broker does not panic"));
            started.collect::<Result<Vec<_>>>()
        })?;
        let cluster = Self {
            nodes,
            _mapper: mapper,
        };
        cluster.form()?;
        Ok(cluster)
    }

    /// The nodes, to be killed, frozen and restarted one by one. After that,
    /// [`wait_until_sound`](Self::wait_until_sound) waits for the others to take it back.
    pub fn nodes(&self) -> &[RabbitMq] {
        &self.nodes
    }

    /// The URL of each node for the default vhost and the user `guest`, in the order of
    /// [`nodes`](Self::nodes).
    pub fn amqp_urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.amqp_url()).collect()
    }

    /// The node on which the leader of a queue of the default vhost is, as the first node that
    /// answers knows it; `None` without such a queue. For a moment after the leader's end, that is
    /// still the old one.
    ///
    /// # Errors
    ///
    /// No node answers.
    pub fn leader_of(&self, queue: &str) -> Result<Option<&RabbitMq>> {
        let leader = self.answering()?.leader_of("/", queue)?;
        let is_leader = |node: &&RabbitMq| leader.as_deref() == Some(&node.node());
        Ok(self.nodes.iter().find(is_leader))
    }

    /// Whether every node answers clients and sees all of them running.
    pub fn is_sound(&self) -> bool {
        let sees_all = |node: &RabbitMq| {
            let running = node.running_nodes();
            running.is_ok_and(|running| running.len() == NODES)
        };
        self.nodes
            .iter()
            .all(|node| node.is_ready() && sees_all(node))
    }

    /// Waits until [`is_sound`](Self::is_sound).
    ///
    /// # Errors
    ///
    /// That was not so within three minutes.
    pub fn wait_until_sound(&self) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while !self.is_sound() {
            if Instant::now() > deadline {
                let refusal = io::Error::from(io::ErrorKind::TimedOut);
                return Err(Error::io(
                    "see the RabbitMQ cluster sound within three minutes",
                )(refusal));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn form(&self) -> Result<()> {
        let (first, others) = self.nodes.split_first().expect("there are three");
        for node in others {
            node.evaluate_within(&join(&first.node()), LIMIT)?;
        }
        self.wait_until_sound()
    }

    fn answering(&self) -> Result<&RabbitMq> {
        let mut nodes = self.nodes.iter();
        nodes
            .find(|node| node.is_ready())
            .ok_or_else(|| Error::Missing("no node of the RabbitMQ cluster answers".to_owned()))
    }
}

/// What `rabbitmqctl stop_app`, `join_cluster` and `start_app` do.
fn join(node: &str) -> String {
    format!(
        "rabbit:stop(), \
         ok = try rabbit_db_cluster:join('{node}', disc) \
         catch error:undef -> rabbit_mnesia:join_cluster('{node}', disc) end, \
         ok = rabbit:start(), <<\"ok\">>"
    )
}
