use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

struct Receipt;

#[idempotent(key = "order_id")]
async fn charge(order: Order) -> Result<Receipt, Failed> {
    drop(order.order_id);
    Ok(Receipt)
}

fn main() {}
