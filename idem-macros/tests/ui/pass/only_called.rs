use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id")]
async fn charge(order: Order) -> Result<usize, Failed> {
    Ok(order.order_id.len())
}

fn main() {
    drop(charge(Order {
        order_id: "o-17".into(),
    }));
}
