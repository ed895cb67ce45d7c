use idem_core::{
    Batch, Failed, Failure, FromRef, State,
    handler::{AtomicBatch, Handler, LeasedBatch, Operation},
    idempotent,
};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Order {
    order_id: u64,
}

#[derive(Serialize)]
struct Receipt(u64);

#[derive(Debug)]
struct Declined;

impl std::fmt::Display for Declined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("declined")
    }
}

impl Failure for Declined {}

#[derive(Clone)]
struct Mailer;

#[derive(Clone, FromRef)]
struct App {
    mailer: Mailer,
}

struct Transaction<'c, Db>(&'c Db);

struct Books;

/// `()` stands for all.
#[idempotent(key = "order_id", batch = 256)]
async fn notify(orders: Batch<Order>, State(_): State<Mailer>) -> Result<(), Failed> {
    orders.reject(0, "nobody to tell");
    Ok(())
}

/// Or an output for each, and an error of one's own.
#[idempotent(key = "order_id", batch = 2, batch_bytes = 1_000_000, batch_wait = "5ms")]
async fn ship(orders: Batch<Order, Declined>) -> Result<Vec<Receipt>, Declined> {
    orders.fail(0, Declined);
    Ok(orders.accepted().map(|order| Receipt(order.order_id)).collect())
}

#[idempotent(key = "order_id", batch = 64, lease = "5s")]
async fn charge(
    orders: Batch<Order>,
    db: &mut Transaction<'_, Books>,
    State(app): State<App>,
) -> Result<(), Failed> {
    let _ = (orders, db.0, app);
    Ok(())
}

fn is_leased<H: Handler<App, Mode = LeasedBatch>>(size: usize) {
    assert_eq!(H::BATCH.map(|batch| batch.most()), Some(size));
}

fn is_atomic<H: Operation<Mode = AtomicBatch<Tx>>, Tx: Send + 'static>() {}

fn main() {
    is_leased::<notify>(256);
    is_leased::<ship>(2);
    is_atomic::<charge, Transaction<'static, Books>>();
}
