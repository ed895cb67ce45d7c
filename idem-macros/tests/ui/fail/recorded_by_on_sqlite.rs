use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

struct SqliteConnection;

#[idempotent(key = "order_id", recorded_by = "payments_order_id_key")]
async fn charge(order: Order, _db: &mut SqliteConnection) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

struct Sqlite;

struct Transaction<'c, Db>(&'c Db);

#[idempotent(key = "order_id", recorded_by = "payments_order_id_key")]
async fn refund(order: Order, db: &mut Transaction<'_, Sqlite>) -> Result<(), Failed> {
    let _ = (order.order_id, db.0);
    Ok(())
}

fn main() {}
