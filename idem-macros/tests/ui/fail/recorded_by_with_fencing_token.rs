use idem_core::{Failed, FencingToken, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

struct Connection;

#[idempotent(key = "order_id", recorded_by = "payments_order_id_key")]
async fn charge(
    order: Order,
    token: FencingToken,
    _db: &mut Connection,
) -> Result<(), Failed> {
    let _ = (order.order_id, token);
    Ok(())
}

fn main() {}
