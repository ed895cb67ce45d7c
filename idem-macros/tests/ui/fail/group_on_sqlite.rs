use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

struct SqliteConnection;

#[idempotent(key = "order_id", group = 32)]
async fn charge(order: Order, _db: &mut SqliteConnection) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
