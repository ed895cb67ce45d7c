use idem_core::{Failed, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id")]
fn charge(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {
    let order = Order {
        order_id: "o-17".into(),
    };
    charge(order).unwrap();
    consume::<charge>();
}

fn consume<H: Handler<()>>() {}
