use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    amount: f64,
}

#[idempotent(key = "amount")]
async fn charge(order: Order) -> Result<(), Failed> {
    let _ = order.amount;
    Ok(())
}

#[idempotent(key = first(message_id(), amount))]
async fn refund(order: Order) -> Result<(), Failed> {
    let _ = order.amount;
    Ok(())
}

fn main() {}
