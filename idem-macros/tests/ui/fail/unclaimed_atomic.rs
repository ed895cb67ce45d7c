use idem_core::{Failed, idempotent};

#[derive(serde::Deserialize)]
struct Order {
    order_id: String,
    seq: u64,
}

struct Connection;

#[idempotent(key = "order_id", keyless = "run")]
async fn charge(order: Order, db: &mut Connection) -> Result<(), Failed> {
    drop((order.order_id, db));
    Ok(())
}

#[idempotent(enforcement = "plain")]
async fn log(order: Order, db: &mut Connection) -> Result<(), Failed> {
    drop((order.order_id, db));
    Ok(())
}

#[idempotent(
    key = sequence(producer = "order_id", number = "seq"),
    keyless = "run",
    enforcement = "plain"
)]
async fn read(order: Order) -> Result<(), Failed> {
    let _ = (order.order_id, order.seq);
    Ok(())
}

#[idempotent(key = "order_id", keyless = "ack")]
async fn count(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(enforcement = "plain", store_outage = "fail_open")]
async fn store(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
