use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id", enforcement = "observe", store_outage = "fail_open")]
async fn charge(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
