use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

struct Connection;

#[idempotent(key = "order_id", enforcement = "observe")]
async fn charge(order: Order, _db: &mut Connection) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
