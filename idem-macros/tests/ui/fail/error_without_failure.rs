use idem_core::idempotent;
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[derive(Debug)]
struct Declined;

#[idempotent(key = "order_id")]
async fn charge(order: Order) -> Result<(), Declined> {
    drop(order.order_id);
    Err(Declined)
}

type Answer = Result<u64, Declined>;

#[idempotent(key = "order_id")]
async fn refund(order: Order) -> Answer {
    drop(order.order_id);
    Err(Declined)
}

fn main() {}
