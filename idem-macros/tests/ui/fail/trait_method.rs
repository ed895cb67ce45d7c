use idem_core::{Failed, idempotent};

struct Order {
    order_id: String,
}

trait Charge {
    #[idempotent(key = "order_id")]
    async fn charge(order: Order) -> Result<(), Failed>;
}

fn main() {}
