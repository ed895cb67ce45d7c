use idem_amqp::{MemoryStore, prelude::*};
use serde::Deserialize;

#[derive(Deserialize)]
struct OrderPlaced { order_id: String }

#[idempotent(key = "order_id", scope = "orders.charge")]
async fn charge(_order: OrderPlaced) -> Result<(), Failed> { Ok(()) }

#[derive(Deserialize, IdempotencyKey)]
#[serde(tag = "type")]
enum OrderEvent {
    Placed { #[key] order_id: String },
    Cancelled { #[key] order_id: String, reason: String },
}

// Its keys are `orders.handle:Placed:o-17` and `orders.handle:Cancelled:o-17`.
#[idempotent(scope = "orders.handle")]
async fn handle(event: OrderEvent) -> Result<(), Failed> {
    match event {
        OrderEvent::Placed { order_id } => println!("{order_id} was placed"),
        OrderEvent::Cancelled { order_id, reason } => println!("{order_id} was cancelled: {reason}"),
    }
    Ok(())
}

async fn several_connections(store: MemoryStore, amqp_urls: &str) -> Result<(), super::Error> {
    let worker = || Worker::builder(store.clone()).consume::<charge>("orders.charge").build(amqp_urls);
    let (one, other) = (worker()?, worker()?);
    tokio::try_join!(one.run_until(shutdown_signal()), other.run_until(shutdown_signal()))?;
    Ok(())
}
