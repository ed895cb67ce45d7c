use idem_core::{Batch, Failed, MemoryStore, Store, executor::RunsOn, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

struct Connection;

#[idempotent(key = "order_id", batch = 32)]
async fn charge(orders: Batch<Order>, _db: &mut Connection) -> Result<(), Failed> {
    drop(orders);
    Ok(())
}

fn consume<S: Store, H: Handler<()>>()
where
    H::Mode: RunsOn<S>,
{
}

fn main() {
    consume::<MemoryStore, charge>();
}
