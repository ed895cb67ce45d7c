use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

struct Books;

#[idempotent(key = "order_id", group = 32, recorded_by = "payments_order_id_key")]
async fn charge(order: Order, _db: &mut Books) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
