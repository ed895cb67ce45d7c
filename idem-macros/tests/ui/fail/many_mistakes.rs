use idem_core::idempotent;
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(keys = "order_id", lease = "30", scope = "a b", max_attempts = 0)]
fn charge<T>(order: &Order, _count: &T) {
    drop(order.order_id.clone());
}

fn main() {
    charge(
        &Order {
            order_id: "o-17".into(),
        },
        &17,
    );
}
