use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id", timeout = "0s")]
async fn handler_0(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id", timeout = 30)]
async fn handler_1(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id", timeout = "4000d")]
async fn handler_2(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
