use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id", recorded_by = "payments_order_id_key")]
async fn charge(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
