use idem_amqp::{MemoryStore, prelude::*};
use serde::Deserialize;

#[derive(Deserialize)]
struct OrderPlaced { order_id: String }

#[idempotent(key = "order_id", scope = "orders.charge")]
async fn charge(_order: OrderPlaced) -> Result<(), Failed> { Ok(()) }

async fn several_connections(store: MemoryStore, amqp_urls: &str) -> Result<(), super::Error> {
    let worker = || Worker::builder(store.clone()).consume::<charge>("orders.charge").build(amqp_urls);
    let (one, other) = (worker()?, worker()?);
    tokio::try_join!(one.run_until(shutdown_signal()), other.run_until(shutdown_signal()))?;
    Ok(())
}
