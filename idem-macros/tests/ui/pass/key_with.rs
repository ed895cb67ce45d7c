use idem_core::{Envelope, Failed, Key, handler::Handler, idempotent, message::{KeyBuilder, KeyError}};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

mod keys {
    use super::*;

    pub(crate) fn order(
        order: &Order,
        envelope: &Envelope,
        key: KeyBuilder,
    ) -> Result<Key, KeyError> {
        if envelope.header("x-tenant").is_none() {
            return Err(KeyError::custom("no tenant"));
        }
        key.part("order_id", &order.order_id).build()
    }
}

#[idempotent(key_with = keys::order, scope = "orders.charge")]
async fn charge(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn consume<H: Handler<()>>() {}

fn main() {
    consume::<charge>();
}
