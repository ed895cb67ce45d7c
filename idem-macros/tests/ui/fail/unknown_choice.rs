use idem_core::{Failed, idempotent};

#[derive(serde::Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(
    key = "order_id",
    on_rejected = "drop",
    on_exhausted = dead_letter,
    on_duplicate = 1,
    on_conflict = "retry",
    late = "dead-letter",
    time_header = 5
)]
async fn charge(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
