use idem_core::{Failed, IdempotencyKey, idempotent};
use serde::Deserialize;

#[derive(Deserialize, IdempotencyKey)]
struct Order {
    order_id: String,
}

#[idempotent]
async fn charge(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
