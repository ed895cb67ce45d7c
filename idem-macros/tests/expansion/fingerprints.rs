//! What counts as the same content.

use idem_core::{Failed, handler::Operation, idempotent, message::Fingerprint};

use crate::{ORDER, OrderPlaced, order};

#[idempotent(key = "order_id")]
async fn body(order: OrderPlaced) -> Result<(), Failed> {
    drop(order);
    Ok(())
}

#[idempotent(key = "order_id", fingerprint = off)]
async fn off(order: OrderPlaced) -> Result<(), Failed> {
    drop(order);
    Ok(())
}

#[idempotent(key = "order_id", fingerprint = ["customer.id", voucher])]
async fn fields(order: OrderPlaced) -> Result<(), Failed> {
    let _ = (order.customer.id, order.voucher, order.lines);
    Ok(())
}

fn fingerprint<H: Operation>() -> Option<Fingerprint> {
    let envelope = order().build();
    let message = H::decode(&envelope).expect("the body is an order");
    H::fingerprint(&message, &envelope)
}

#[test]
fn the_whole_body_counts_by_default() {
    let expected = Fingerprint::of(ORDER.as_bytes());
    assert_eq!(fingerprint::<body>(), Some(expected));
}

#[test]
fn nothing_counts_when_it_is_off() {
    assert_eq!(fingerprint::<off>(), None);
}

#[test]
fn the_named_fields_count_alone() {
    let expected = Fingerprint::builder()
        .field("customer.id", &7)
        .field("voucher", &None::<String>)
        .build();
    assert_eq!(fingerprint::<fields>(), Some(expected));
}
