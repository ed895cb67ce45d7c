use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id", max_outcome = 0)]
async fn handler_0(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id", max_outcome = "64KiB")]
async fn handler_1(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id", max_outcome = 8388609)]
async fn handler_2(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
