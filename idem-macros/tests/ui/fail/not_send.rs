use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

use std::rc::Rc;

#[idempotent(key = "order_id")]
async fn charge(order: Order) -> Result<(), Failed> {
    let shared = Rc::new(order);
    std::future::ready(()).await;
    drop(shared.order_id.clone());
    Ok(())
}

fn main() {}
