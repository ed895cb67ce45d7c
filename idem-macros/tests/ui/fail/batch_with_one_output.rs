use idem_core::{Batch, Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id", batch = 64)]
async fn charge(orders: Batch<Order>) -> Result<usize, Failed> {
    Ok(orders.len())
}

fn main() {}
