use idem_core::{Failed, State, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

struct Mailer;

#[idempotent(key = "order_id")]
async fn notify(State(_): State<Mailer>, order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
