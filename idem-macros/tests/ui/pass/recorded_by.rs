use std::{error::Error, fmt};

use idem_core::{Envelope, Failed, Failure, handler::{Operation, RecordedBy}, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: u64,
    customer: Option<String>,
}

struct Transaction<'c, Db>(&'c Db);

struct Books;

#[idempotent(key = "order_id", recorded_by = "payments_order_id_key")]
async fn charge(order: Order, _db: &mut Books) -> Result<(), Failed> {
    let _ = order.order_id;
    Ok(())
}

#[derive(Debug)]
struct RefundError;

impl fmt::Display for RefundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no")
    }
}

impl Error for RefundError {}

impl Failure for RefundError {}

/// Several parts, of several sources, and an error of one's own.
#[idempotent(
    key = [customer, "order_id", header("x-tenant"), message_id()],
    recorded_by = "refunds_pkey",
    lease = "5s"
)]
async fn refund(order: Order, db: &mut Transaction<'_, Books>) -> Result<(), RefundError> {
    let _ = (order.customer, db.0);
    Ok(())
}

fn is_in_entity<H: Operation<Mode = RecordedBy<Tx>>, Tx: Send + 'static>(columns: usize) {
    let by = H::RECORDED_BY.expect("it is in its entity");
    assert_eq!(by.columns(), columns);
}

fn main() {
    is_in_entity::<charge, Books>(1);
    is_in_entity::<refund, Transaction<'static, Books>>(4);
    let envelope = Envelope::new(r#"{"order_id":17,"customer":null}"#);
    let order = charge::decode(&envelope).unwrap();
    assert!(charge::fingerprint(&order, &envelope).is_none());
    assert!(charge::key(&order, &envelope).is_ok());
    assert!(refund::key(&order, &envelope).is_err());
}
