use idem_core::{Refused, Request, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

impl Request for Order {
    type Reply = u64;
    type Error = String;
}

fn older(_: &[u8]) -> Result<String, &'static str> {
    Err("unknown")
}

#[idempotent(key = "order_id", outdated = older)]
async fn charge(order: Order) -> Result<u64, Refused<String>> {
    drop(order.order_id);
    Ok(1)
}

fn main() {}
