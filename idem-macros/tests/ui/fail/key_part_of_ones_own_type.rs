use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: OrderId,
}

#[derive(Deserialize)]
struct OrderId(u64);

#[idempotent(key = order_id)]
async fn charge(order: Order) -> Result<(), Failed> {
    let _ = order.order_id.0;
    Ok(())
}

fn main() {}
