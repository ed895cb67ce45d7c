use idem_core::{Batch, Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

struct Books;

#[idempotent(key = "order_id", batch = 64, group = 32)]
async fn shared(orders: Batch<Order>, _db: &mut Books) -> Result<(), Failed> {
    drop(orders);
    Ok(())
}

#[idempotent(key = "order_id", batch = 64, recorded_by = "orders_key")]
async fn recorded(orders: Batch<Order>, _db: &mut Books) -> Result<(), Failed> {
    drop(orders);
    Ok(())
}

#[idempotent(key = sequence(producer = header("x-device"), number = header("x-seq")), batch = 64)]
async fn numbered(orders: Batch<Order>) -> Result<(), Failed> {
    drop(orders);
    Ok(())
}

#[idempotent(key = "order_id", batch = 64, in_doubt = "quarantine")]
async fn never_twice(orders: Batch<Order>) -> Result<(), Failed> {
    drop(orders);
    Ok(())
}

#[idempotent(key = "order_id", batch = 64, store_outage = "fail_open")]
async fn rather_twice(orders: Batch<Order>) -> Result<(), Failed> {
    drop(orders);
    Ok(())
}

fn main() {}
