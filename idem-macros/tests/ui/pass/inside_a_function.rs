use idem_core::{Failed, handler::Handler, idempotent};
use serde::Deserialize;

fn consume<H: Handler<()>>() {}

fn main() {
    #[derive(Deserialize)]
    struct Order {
        order_id: String,
    }

    #[idempotent(key = "order_id")]
    async fn charge(mut order: Order) -> Result<(), Failed> {
        order.order_id.clear();
        Ok(())
    }

    consume::<charge>();
    drop(charge(Order {
        order_id: "o-17".into(),
    }));
}
