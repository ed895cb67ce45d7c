use idem_core::idempotent;
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

type Answer = Option<u64>;

#[idempotent(key = "order_id")]
async fn charge(order: Order) -> Answer {
    Some(order.order_id.len() as u64)
}

fn main() {}
