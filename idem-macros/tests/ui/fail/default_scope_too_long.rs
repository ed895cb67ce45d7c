use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id")]
async fn charge_the_card_of_the_customer_who_has_placed_an_order_that_has_not_been_paid_for_in_advance(
    order: Order,
) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
