use idem_core::{Attempt, Batch, Failed, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id", batch = 64)]
async fn charge(orders: Batch<Order>, attempt: Attempt) -> Result<(), Failed> {
    drop((orders, attempt));
    Ok(())
}

fn consume<H: Handler<()>>() {}

fn main() {
    consume::<charge>();
}
