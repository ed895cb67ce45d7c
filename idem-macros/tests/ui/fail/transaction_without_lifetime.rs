use idem_core::{Failed, idempotent};
use serde::Deserialize;

mod sqlx {
    pub struct Postgres;
    pub struct Transaction<'c, Db>(pub &'c Db);
    pub type PgTransaction<'c> = Transaction<'c, Postgres>;
}

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id")]
async fn charge(order: Order, _db: &mut sqlx::PgTransaction) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id")]
async fn refund(order: Order, _db: &mut sqlx::Transaction<sqlx::Postgres>) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
