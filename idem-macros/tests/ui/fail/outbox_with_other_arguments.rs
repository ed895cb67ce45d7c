use idem_core::{
    Batch, Failed,
    handler::{Outbox, Outboxes},
    idempotent,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

struct Connection;

#[idempotent(key = "order_id", scope = "orders.b", recorded_by = "charges_order_id")]
async fn recorded(order: Order, outbox: Outbox, db: &mut Connection) -> Result<(), Failed> {
    drop((order.order_id, outbox, db));
    Ok(())
}

#[idempotent(key = "order_id", scope = "orders.c", batch = 8)]
async fn of_all(orders: Batch<Order>, outbox: Outbox, db: &mut Connection) -> Result<(), Failed> {
    drop((orders, outbox, db));
    Ok(())
}

#[idempotent(key = "order_id", scope = "orders.d")]
async fn of_one(order: Order, outboxes: Outboxes, db: &mut Connection) -> Result<(), Failed> {
    drop((order.order_id, outboxes, db));
    Ok(())
}

fn main() {}
