use idem_core::idempotent;
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id")]
async fn charge(order: Order) {
    drop(order.order_id);
}

fn main() {}
