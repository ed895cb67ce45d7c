use idem_core::{Failed, handler::{Grouped, Operation, Outbox}, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: u64,
}

struct Transaction<'c, Db>(&'c Db);

struct Books;

#[idempotent(key = "order_id", group = 32)]
async fn charge(order: Order, _db: &mut Books) -> Result<(), Failed> {
    let _ = order.order_id;
    Ok(())
}

#[idempotent(key = "order_id", group = 2, lease = "5s")]
async fn refund(order: Order, outbox: Outbox, db: &mut Transaction<'_, Books>) -> Result<(), Failed> {
    let _ = (order.order_id, outbox, db.0);
    Ok(())
}

fn is_grouped<H: Operation<Mode = Grouped<Tx, SIZE>>, Tx: Send + 'static, const SIZE: usize>() {}

fn main() {
    is_grouped::<charge, Books, 32>();
    is_grouped::<refund, Transaction<'static, Books>, 2>();
}
