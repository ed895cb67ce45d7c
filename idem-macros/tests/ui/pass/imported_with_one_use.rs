use idem_core::handler::Handler;

mod handlers {
    use idem_core::{Failed, idempotent};
    use serde::Deserialize;

    #[derive(Deserialize)]
    pub(super) struct Order {
        pub(super) order_id: String,
    }

    #[idempotent(key = "order_id")]
    pub(super) async fn charge(order: Order) -> Result<(), Failed> {
        drop(order.order_id);
        Ok(())
    }
}

use handlers::charge;

fn consume<H: Handler<()>>() {}

fn main() {
    consume::<charge>();
    drop(charge(handlers::Order {
        order_id: "o-17".into(),
    }));
}
