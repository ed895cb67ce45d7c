use idem_core::{Failed, handler::Handler};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

async fn charge(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn consume<H: Handler<()>>() {}

fn main() {
    consume::<charge>();
}
