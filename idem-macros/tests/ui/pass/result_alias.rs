use idem_core::{Failed, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

type Done<T = (), E = Failed> = Result<T, E>;

#[idempotent(key = "order_id")]
async fn charge(order: Order) -> Done {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id")]
async fn refund(order: Order) -> Done<&'static str> {
    drop(order.order_id);
    Ok("refunded")
}

fn consume<H: Handler<(), Error = Failed>>(_: H::Output)
where
    H::Output: Sized,
{
}

fn main() {
    consume::<charge>(());
    consume::<refund>("refunded");
}
