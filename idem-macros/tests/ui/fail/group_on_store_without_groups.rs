use idem_core::{Failed, MemoryStore, Store, executor::RunsOn, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

struct Connection;

#[idempotent(key = "order_id", group = 32)]
async fn charge(order: Order, _db: &mut Connection) -> Result<(), Failed> {
    drop(order.order_id);
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
