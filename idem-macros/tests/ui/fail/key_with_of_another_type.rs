use idem_core::{Failed, Key, idempotent, message::KeyError};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

fn order_key(order: &Order) -> Result<Key, KeyError> {
    Key::new("charge", &order.order_id)
}

#[idempotent(key_with = order_key)]
async fn charge(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key_with = "order_key")]
async fn refund(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
