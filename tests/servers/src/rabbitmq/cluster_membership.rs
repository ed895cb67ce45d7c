//! With whom a broker can form a cluster, and what that asks of its configuration.

/// The brokers that a broker can form a cluster with.
#[derive(Clone, Debug)]
pub(crate) enum ClusterMembership {
    /// None: it runs a port mapper of its own.
    Alone,
    /// All with the same cookie and the same port mapper.
    Around {
        /// Lets Erlang nodes trust each other.
        cookie: String,
        /// Where the nodes ask for each other's ports.
        mapper_port: u16,
    },
}

impl ClusterMembership {
    /// Those that find each other through this port mapper.
    pub(super) fn around(mapper_port: u16) -> Self {
        Self::Around {
            cookie: new_cookie(),
            mapper_port,
        }
    }

    pub(super) fn cookie(&self) -> String {
        match self {
            Self::Alone => new_cookie(),
            Self::Around { cookie, .. } => cookie.clone(),
        }
    }

    pub(super) fn launch_script(&self) -> &'static str {
        match self {
            Self::Alone => include_str!("launch.sh"),
            Self::Around { .. } => include_str!("launch_node.sh"),
        }
    }

    /// Lines for `rabbitmq.conf`. A node that was frozen for too long for Mnesia is restarted by the
    /// others; `pause_minority` would leave it out if it saw them again at once.
    pub(super) fn configuration(&self) -> &'static str {
        match self {
            Self::Alone => "",
            Self::Around { .. } => "cluster_partition_handling = autoheal\n",
        }
    }

    /// What `advanced.config` says. A node that falls silent counts as down after 8 s; by default
    /// after a minute.
    pub(super) fn advanced(&self) -> &'static str {
        match self {
            Self::Alone => "[].\n",
            Self::Around { .. } => "[{kernel, [{net_ticktime, 8}]}].\n",
        }
    }
}

fn new_cookie() -> String {
    std::iter::repeat_with(fastrand::alphanumeric)
        .take(24)
        .collect()
}
