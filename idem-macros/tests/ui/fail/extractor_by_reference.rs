use idem_core::{Failed, State, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

struct Mailer;

#[idempotent(key = "order_id")]
async fn notify(order: Order, _mailer: &Mailer, State(_all): &State<Mailer>) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
