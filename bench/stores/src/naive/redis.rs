//! GET, SET NX EX, SET on one connection that all callers share.

use idem_core::Policy;
use redis::{
    AsyncCommands, Client, ExistenceCheck, SetExpiry, SetOptions,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster::ClusterClient,
    cluster_async::ClusterConnection,
};

use super::{not_done, not_new};
use crate::{Result, contender::Contender};

#[derive(Clone, Debug)]
pub(crate) struct NaiveRedis<C>(C);

impl NaiveRedis<MultiplexedConnection> {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let client = Client::open(url)?;
        Ok(Self(client.get_multiplexed_async_connection().await?))
    }
}

impl NaiveRedis<ClusterConnection> {
    pub(crate) async fn connect(nodes: Vec<String>) -> Result<Self> {
        let client = ClusterClient::new(nodes)?;
        Ok(Self(client.get_async_connection().await?))
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Contender for NaiveRedis<C> {
    async fn first(&self, name: &str) -> Result<()> {
        let mut connection = self.0.clone();
        let key = key(name);
        let status: Option<String> = connection.get(&key).await?;
        if status.is_some() {
            return Err(not_new(name));
        }
        let lease = SetExpiry::EX(Policy::DEFAULT.lease().as_secs());
        let if_new = SetOptions::default()
            .conditional_set(ExistenceCheck::NX)
            .with_expiration(lease);
        let acquired: bool = connection.set_options(&key, "processing", if_new).await?;
        if !acquired {
            return Err(not_new(name));
        }
        let retention = Policy::DEFAULT.retention().as_secs();
        Ok(connection.set_ex(&key, "done", retention).await?)
    }

    async fn again(&self, name: &str) -> Result<()> {
        let status: Option<String> = self.0.clone().get(key(name)).await?;
        match status.as_deref() {
            Some("done") => Ok(()),
            _ => Err(not_done(name)),
        }
    }
}

fn key(name: &str) -> String {
    format!("processed:{name}")
}
