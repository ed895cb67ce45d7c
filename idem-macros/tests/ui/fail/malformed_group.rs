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
            async fn charge(order: Order, _db: &mut u8) -> Result<(), Failed> {
                drop(order.order_id);
                Ok(())
            }
        };
    )*};
}

handlers! {
    (key = "order_id", group = 0)
    (key = "order_id", group = 1)
    (key = "order_id", group = 257)
    (key = "order_id", group = "32")
    (key = "order_id", group = -2)
    (key = "order_id", group = all)
}

fn main() {}
