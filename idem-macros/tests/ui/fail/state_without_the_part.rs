use idem_core::{Failed, State, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[derive(Clone)]
struct Mailer;

struct App;

#[idempotent(key = "order_id")]
async fn notify(order: Order, State(_): State<Mailer>) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn consume<S, H: Handler<S>>(_: S) {}

fn main() {
    consume::<App, notify>(App);
}
