//! Who is asked: one server or a cluster, alike.

use std::sync::Arc;

use redis::{
    Cmd, ErrorKind, RedisResult, Value,
    cluster::ClusterClientBuilder,
    cluster_async::ClusterConnection,
    cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo, SingleNodeRoutingInfo},
    from_redis_value,
};

use super::{
    fault,
    link::{Link, Timeouts},
    location::{self, Location},
};

#[derive(Clone)]
pub(super) enum Server {
    One(Arc<Link>),
    /// It routes by key, follows moved slots and connects again by itself.
    Cluster(ClusterConnection),
}

impl Server {
    /// Connects.
    pub(super) async fn connect(location: Location, timeouts: Timeouts) -> RedisResult<Self> {
        match location {
            Location::Server(node) => Self::one(Link::new(*node, timeouts)?).await,
            Location::Watched(watched) => Self::one(Link::watched(*watched, timeouts)).await,
            Location::Cluster(nodes) => {
                let client = ClusterClientBuilder::new(nodes)
                    .connection_timeout(timeouts.connect)
                    .response_timeout(timeouts.response)
                    .tcp_settings(location::settings(timeouts.response))
                    .build()?;
                let connected = client.get_async_connection().await?;
                Ok(Self::Cluster(connected))
            }
        }
    }

    async fn one(link: Link) -> RedisResult<Self> {
        match link.ask(&redis::cmd("PING")).await {
            // Whoever may not ask has been let in all the same, and a server that takes no writes for now is there.
            Err(error) if !fault::is_not_permitted(&error) && !fault::is_for_now(&error) => {
                Err(error)
            }
            _ => Ok(Self::One(Arc::new(link))),
        }
    }

    /// Sends one command, which may be carried out twice.
    pub(super) async fn ask(&self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::One(link) => link.ask(command).await,
            Self::Cluster(connection) => command.query_async(&mut connection.clone()).await,
        }
    }

    /// Sends one command to the server with this address.
    pub(super) async fn ask_at(&self, address: &str, command: &Cmd) -> RedisResult<Value> {
        let Self::Cluster(connection) = self else {
            return self.ask(command).await;
        };
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        let node = SingleNodeRoutingInfo::ByAddress {
            host: host.to_owned(),
            port: port.parse().unwrap_or_default(),
        };
        let routing = RoutingInfo::SingleNode(node);
        let mut connection = connection.clone();
        connection.route_command(command.clone(), routing).await
    }

    /// Asks every server that takes writes; the answers come with their addresses.
    pub(super) async fn ask_each(&self, command: Cmd) -> RedisResult<PerServer> {
        match self {
            Self::One(_) => Ok(vec![(String::new(), self.ask(&command).await?)]),
            Self::Cluster(connection) => {
                let all = (MultipleNodeRoutingInfo::AllMasters, None);
                let mut connection = connection.clone();
                let answers = connection.route_command(command, RoutingInfo::MultiNode(all));
                match answers.await? {
                    Value::Map(nodes) => nodes
                        .into_iter()
                        .map(|(address, answer)| Ok((from_redis_value(address)?, answer)))
                        .collect(),
                    _ => Err((ErrorKind::UnexpectedReturnType, "not an answer per node").into()),
                }
            }
        }
    }
}

/// An answer by the address of the server that gave it.
pub(super) type PerServer = Vec<(String, Value)>;
