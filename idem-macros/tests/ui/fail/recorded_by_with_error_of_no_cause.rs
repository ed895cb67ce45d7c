use std::fmt;

use idem_core::{Failure, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

struct Connection;

#[derive(Debug)]
struct ChargeError;

impl fmt::Display for ChargeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no")
    }
}

impl Failure for ChargeError {}

#[idempotent(key = "order_id", recorded_by = "payments_order_id_key")]
async fn charge(order: Order, _db: &mut Connection) -> Result<(), ChargeError> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
