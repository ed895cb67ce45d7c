use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id", group = 0)]
async fn handler_1(order: Order, _db: &mut u8) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id", group = 1)]
async fn handler_2(order: Order, _db: &mut u8) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id", group = 257)]
async fn handler_3(order: Order, _db: &mut u8) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id", group = "32")]
async fn handler_4(order: Order, _db: &mut u8) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id", group = -2)]
async fn handler_5(order: Order, _db: &mut u8) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id", group = all)]
async fn handler_6(order: Order, _db: &mut u8) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
