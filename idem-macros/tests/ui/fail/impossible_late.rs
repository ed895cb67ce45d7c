use idem_core::{Failed, idempotent};

#[derive(serde::Deserialize)]
struct Order {
    order_id: String,
    seq: u64,
}

struct Connection;

#[idempotent(enforcement = "plain", late = "quarantine")]
async fn log(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id", recorded_by = "charges_order_id_key", late = "quarantine")]
async fn charge(order: Order, db: &mut Connection) -> Result<(), Failed> {
    drop((order.order_id, db));
    Ok(())
}

#[idempotent(key = sequence(producer = "order_id", number = "seq"), late = "quarantine")]
async fn read(order: Order) -> Result<(), Failed> {
    let _ = (order.order_id, order.seq);
    Ok(())
}

fn main() {}
