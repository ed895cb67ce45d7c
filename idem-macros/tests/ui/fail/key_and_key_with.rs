use idem_core::{Envelope, Failed, Key, idempotent, message::{KeyBuilder, KeyError}};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

fn order_key(order: &Order, _: &Envelope, key: KeyBuilder) -> Result<Key, KeyError> {
    key.part("order_id", &order.order_id).build()
}

#[idempotent(key = "order_id", key_with = order_key)]
async fn charge(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
