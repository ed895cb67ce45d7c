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
    (key = "order_id", scope = "orders:charge")
    (key = "order_id", scope = "")
    (key = "order_id", scope = charge)
    (key = "order_id", lease = 30)
    (key = "order_id", lease = "30")
    (key = "order_id", lease = "thirty seconds")
    (key = "order_id", lease = "1.5s")
    (key = "order_id", lease = "99ms")
    (key = "order_id", lease = "2h", retention = "1h")
    (key = "order_id", retention = "")
    (key = "order_id", backoff = "1s-5m")
    (key = "order_id", backoff = "5m..1s")
    (key = "order_id", backoff = "0s..1s")
    (key = "order_id", lease = "100h")
    (key = "order_id", retention = "10s")
    (key = "order_id", retention = "4000d")
    (key = "order_id", max_attempts = 0)
    (key = "order_id", max_attempts = 1.5)
    (key = "order_id", max_attempts = -1)
    (key = "order_id", max_attempts = 4294967296)
    (key = "order_id", timeout = "0s")
    (key = "order_id", timeout = 30)
    (key = "order_id", timeout = "4000d")
    (key = "order_id", max_outcome = 0)
    (key = "order_id", max_outcome = "64KiB")
    (key = "order_id", max_outcome = 8388609)
    (key = "order_id", store_outage = "open")
    (key = "order_id", store_outage = true)
    (key = "order_id", enforcement = "shadow")
    (key = "order_id", enforcement = true)
    (key = "order_id", on_rejected = "drop")
    (key = "order_id", on_exhausted = dead_letter)
    (key = "order_id", on_duplicate = 1)
    (key = "order_id", on_conflict = "retry")
    (key = "order_id", late = "dead-letter")
    (key = "order_id", time_header = 5)
    (key = "order_id", in_doubt = "ignore", fingerprint = "on")
    (key = "order_id", in_doubt = true, fingerprint = [])
}

fn main() {}
