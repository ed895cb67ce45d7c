use idem_core::{Failed, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

struct Mailer;

#[idempotent(key = "order_id")]
async fn notify(order: Order, _mailer: Mailer) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn consume<H: Handler<()>>() {}

fn main() {
    consume::<notify>();
}
