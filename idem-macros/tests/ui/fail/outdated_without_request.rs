use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

fn older(_: &[u8]) -> Result<u64, &'static str> {
    Err("unknown")
}

#[idempotent(key = "order_id", outdated = older)]
async fn charge(order: Order) -> Result<u64, Failed> {
    drop(order.order_id);
    Ok(1)
}

fn main() {}
