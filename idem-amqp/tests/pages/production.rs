use idem_amqp::{SqliteStore, prelude::*};
use serde::Deserialize;

use super::Error;

#[derive(Deserialize)]
struct OrderPlaced { order_id: String }

#[idempotent(key = "order_id", scope = "orders.charge")]
async fn charge(order: OrderPlaced) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

async fn run(store: SqliteStore, amqp_urls: &str) -> Result<(), Error> {
    let worker = Worker::builder(store)
        .consume::<charge>("orders.charge")
        .build(amqp_urls)?;
    let health = worker.health();   // for a probe: what is wrong, and for how long
    worker.run_until(shutdown_signal()).await?;
    drop(health);
    Ok(())
}
