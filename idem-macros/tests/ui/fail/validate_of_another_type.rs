use idem_core::{Failed, idempotent};

#[derive(serde::Deserialize)]
struct Order {
    order_id: String,
}

fn is_named(order_id: &str) -> Result<(), String> {
    if order_id.is_empty() {
        return Err("an order has an id".into());
    }
    Ok(())
}

#[idempotent(key = "order_id", validate = is_named)]
async fn charge(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
