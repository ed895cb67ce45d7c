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
    (key = header())
    (key = header(""))
    (key = header("a", "b"))
    (key = message_id("x"))
    (key = first())
    (key = first(first(message_id(), content()), order_id))
    (key = [])
    (key = [["a"], "b"])
    (key = ["order_id", order_id])
    (key = "")
    (key = "order-id")
    (key = "customer..id")
    (key = 5)
    (key = self.order_id)
    (key = header("idem-key"))
    (key = [headers("x-tenant"), uuid()])
    (key = uuid())
}

fn main() {}
