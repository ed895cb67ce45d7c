use std::sync::Arc;

use idem_core::{Failed, IdempotencyKey, handler::Handler, idempotent, message::KeyPart};
use serde::Deserialize;

#[derive(Deserialize, IdempotencyKey)]
struct Order {
    #[key]
    customer: u64,
    amount: f64,
    #[key]
    r#type: Option<String>,
}

#[derive(IdempotencyKey)]
struct Wrapped<'a, T: ?Sized, const N: usize>
where
    T: 'a,
{
    #[key]
    id: &'a T,
    #[key]
    shared: Arc<T>,
    rest: [u8; N],
}

#[idempotent]
async fn charge(order: Order) -> Result<(), Failed> {
    let _ = (order.customer, order.amount, order.r#type);
    Ok(())
}

#[idempotent()]
async fn refund(order: Order) -> Result<(), Failed> {
    drop(order);
    Ok(())
}

fn consume<H: Handler<()>>() {}

fn has_key<T: KeyPart + ?Sized>(wrapped: &Wrapped<'_, T, 1>) {
    let _ = (wrapped.id.to_part(), wrapped.shared.to_part(), wrapped.rest);
    let key = idem_core::Key::builder("orders");
    assert!(IdempotencyKey::parts(wrapped, key).build().is_ok());
}

fn main() {
    consume::<charge>();
    consume::<refund>();
    has_key(&Wrapped {
        id: "o-17",
        shared: Arc::from("x"),
        rest: [0],
    });
}
