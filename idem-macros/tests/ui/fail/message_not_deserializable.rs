use idem_core::{Failed, idempotent};

struct Order {
    order_id: String,
}

#[idempotent(key = "order_id")]
async fn charge(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
