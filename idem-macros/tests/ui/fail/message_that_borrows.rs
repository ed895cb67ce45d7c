use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order<'a> {
    order_id: &'a str,
}

#[idempotent(key = "order_id")]
async fn charge(order: Order<'_>) -> Result<(), Failed> {
    let _ = order.order_id;
    Ok(())
}

fn main() {}
