use idem_core::{Failed, idempotent};

struct Order {
    order_id: String,
}

struct Service;

impl Service {
    #[idempotent(key = "order_id")]
    async fn charge(&self, order: Order) -> Result<(), Failed> {
        drop(order.order_id);
        Ok(())
    }
}

fn main() {}
