use idem_core::{Failed, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Event(u64);

#[idempotent(key = customer.id)]
async fn nested(order: Order) -> Result<(), Failed> {
    drop(order.customer.id);
    Ok(())
}

#[derive(Deserialize)]
struct Order {
    customer: Customer,
}

#[derive(Deserialize)]
struct Customer {
    id: String,
}

#[idempotent(key = "0")]
async fn unnamed(event: Event) -> Result<(), Failed> {
    let _ = event.0;
    Ok(())
}

#[idempotent(key = header("x-idempotency-key"))]
async fn header(event: Event) -> Result<(), Failed> {
    let _ = event.0;
    Ok(())
}

#[idempotent(key = message_id())]
async fn message_id(event: Event) -> Result<(), Failed> {
    let _ = event.0;
    Ok(())
}

#[idempotent(key = content())]
async fn content(event: Event) -> Result<(), Failed> {
    let _ = event.0;
    Ok(())
}

#[idempotent(key = first(message_id(), header("x-message-id"), content()))]
async fn first(event: Event) -> Result<(), Failed> {
    let _ = event.0;
    Ok(())
}

fn consume<H: Handler<()>>() {}

fn main() {
    consume::<nested>();
    consume::<unnamed>();
    consume::<header>();
    consume::<message_id>();
    consume::<content>();
    consume::<first>();
}
