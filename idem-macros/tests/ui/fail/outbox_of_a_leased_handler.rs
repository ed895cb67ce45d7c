use idem_core::{Failed, handler::Outbox, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id", scope = "orders.charge")]
async fn charge(order: Order, outbox: Outbox) -> Result<(), Failed> {
    drop((order.order_id, outbox));
    Ok(())
}

fn main() {}
