mod facade {
    pub use idem_core as renamed;
}

use facade::renamed::{Failed, IdempotencyKey, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize, IdempotencyKey)]
#[key(crate = facade::renamed)]
struct Order {
    #[key]
    order_id: String,
}

#[idempotent(crate = crate::facade::renamed)]
async fn charge(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn consume<H: Handler<()>>() {}

fn main() {
    consume::<charge>();
}
