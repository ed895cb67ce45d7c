use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    customer: Customer,
    gift_to: Option<Customer>,
}

#[derive(Deserialize)]
struct Customer {
    number: u64,
}

#[idempotent(key = ["customer.numbr", "gift_to.number"])]
async fn charge(order: Order) -> Result<(), Failed> {
    drop(order);
    Ok(())
}

fn main() {}
