use idem_core::{Failed, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(
    key = "order_id",
    scope = "orders.charge",
    lease = "1m 30s",
    retention = "7d",
    max_attempts = 5,
    backoff = "500ms..5min",
    in_doubt = "quarantine",
    fingerprint = ["order_id"],
)]
async fn charge(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id", in_doubt = retry, fingerprint = off, backoff = "2s")]
async fn refund(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id", fingerprint = "off", in_doubt = quarantine)]
async fn ship(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(
    key = "order_id",
    on_rejected = "ack",
    on_exhausted = "dead-letter",
    on_duplicate = "dead-letter",
    on_conflict = requeue,
    keyless = "run",
    late = quarantine,
    time_header = "x-made-at",
)]
async fn report(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn consume<H: Handler<()>>() {}

fn main() {
    consume::<charge>();
    consume::<refund>();
    consume::<ship>();
    consume::<report>();
}
