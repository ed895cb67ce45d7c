use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id")]
async fn charge(order: &Order) -> Result<(), Failed> {
    let _ = &order.order_id;
    Ok(())
}

fn main() {}
