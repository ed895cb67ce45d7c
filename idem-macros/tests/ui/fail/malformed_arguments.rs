use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

/// A handler for each row, which has its arguments.
macro_rules! handlers {
    ($($arguments:tt)*) => {$(
        const _: () = {
            #[idempotent $arguments]
            async fn charge(order: Order) -> Result<(), Failed> {
                drop(order.order_id);
                Ok(())
            }
        };
    )*};
}

handlers! {
    ("order_id")
    (order_id)
    (header("x-id"))
    (key = "order_id", lease, scope = , max_attempts = "5")
    (key = "order_id" lease = "30s", max_attempts = 5)
    (key = "order_id", lease = "30s", lease = "60s")
    (key = "order_id", leese = "30s", ttl = "72h", colour = "red")
}

fn main() {}
