use idem_core::{Batch, Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id", batch = "many")]
async fn in_words(orders: Batch<Order>) -> Result<(), Failed> {
    drop(orders);
    Ok(())
}

#[idempotent(key = "order_id", batch = 1)]
async fn of_one(orders: Batch<Order>) -> Result<(), Failed> {
    drop(orders);
    Ok(())
}

#[idempotent(key = "order_id", batch = 5000)]
async fn too_large(orders: Batch<Order>) -> Result<(), Failed> {
    drop(orders);
    Ok(())
}

#[idempotent(key = "order_id", batch = 64, batch_bytes = 0, batch_wait = "0s")]
async fn of_nothing(orders: Batch<Order>) -> Result<(), Failed> {
    drop(orders);
    Ok(())
}

#[idempotent(key = "order_id", batch_bytes = 1024, batch_wait = "5ms")]
async fn without_batches(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
