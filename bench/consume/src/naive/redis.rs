//! GET, SET NX EX, MULTI with SET and SET, on one connection that all tasks share.

use bench_orders::{Order, Tally};
use idem_amqp::Policy;
use redis::{
    AsyncCommands, Client, ExistenceCheck, SetExpiry, SetOptions, aio::MultiplexedConnection,
};

use super::Handle;
use crate::Result;

#[derive(Clone, Debug)]
pub(crate) struct NaiveRedis(MultiplexedConnection);

impl NaiveRedis {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let client = Client::open(url)?;
        Ok(Self(client.get_multiplexed_async_connection().await?))
    }
}

impl Handle for NaiveRedis {
    async fn handle(&self, order: &Order, tally: &Tally) -> Result<()> {
        let mut connection = self.0.clone();
        let key = format!("processed:{}", order.id);
        let status: Option<String> = connection.get(&key).await?;
        if status.is_some() {
            return Ok(());
        }
        let lease = SetExpiry::EX(Policy::DEFAULT.lease().as_secs());
        let if_new = SetOptions::default()
            .conditional_set(ExistenceCheck::NX)
            .with_expiration(lease);
        let acquired: bool = connection.set_options(&key, "processing", if_new).await?;
        if !acquired {
            return Ok(());
        }
        tally.work().await;
        tally.execute(order);
        let retention = Policy::DEFAULT.retention().as_secs();
        redis::pipe()
            .atomic()
            .set_ex(&key, "done", retention)
            .ignore()
            .set_ex(format!("result:{}", order.id), "null", retention)
            .ignore()
            .query_async::<()>(&mut connection)
            .await?;
        Ok(())
    }
}
