use idem_core::{Failed, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id")]
#[cfg(any())]
async fn charge(order: Nonsense) -> Result<(), Failed> {
    Ok(())
}

#[cfg(all())]
#[idempotent(key = "order_id")]
#[cfg(all())]
#[must_use]
async fn charge(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn consume<H: Handler<()>>() {}

fn main() {
    consume::<charge>();
}
