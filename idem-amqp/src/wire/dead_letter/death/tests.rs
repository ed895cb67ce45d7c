//! What is read out of `x-death`.

use lapin::types::{FieldArray, LongString};

use super::*;

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(value))
}

/// As the broker writes it.
fn death(queue: &str, reason: &str, count: i64, time: u64) -> AMQPValue {
    let mut table = FieldTable::default();
    table.insert("queue".into(), text(queue));
    table.insert("reason".into(), text(reason));
    table.insert("exchange".into(), text("shop"));
    let keys = FieldArray::from(vec![text("order.placed"), text("order.copied")]);
    table.insert("routing-keys".into(), AMQPValue::FieldArray(keys));
    table.insert("count".into(), AMQPValue::LongLongInt(count));
    table.insert("time".into(), AMQPValue::Timestamp(time));
    AMQPValue::FieldTable(table)
}

fn read(deaths: Vec<AMQPValue>) -> Option<Death> {
    let mut headers = FieldTable::default();
    headers.insert("x-death".into(), AMQPValue::FieldArray(deaths.into()));
    Death::last(Some(&headers))
}

#[test]
fn the_latest_death_tells_the_queue_and_the_reason() {
    let deaths = vec![
        death("orders", "delivery_limit", 1, 90),
        death("orders.later", "expired", 2, 60),
        death("orders", "rejected", 2, 50),
    ];
    let expected = Death {
        why: "delivery_limit".into(),
        queue: "orders".into(),
        queues: ["orders", "orders.later", "orders"].map(Into::into).into(),
        exchange: "shop".into(),
        routing_key: "order.placed".into(),
        first: Some(50),
        last: Some(90),
    };
    let read = read(deaths).unwrap();
    assert_eq!(read.reason(), "broker-delivery-limit");
    assert_eq!(read, expected);
}

#[test]
fn the_time_of_a_death_that_happened_again_is_that_of_the_first_one() {
    let read = read(vec![death("orders", "expired", 3, 70)]).unwrap();
    assert_eq!((read.first, read.last), (Some(70), None));
}

#[test]
fn a_header_of_another_shape_tells_nothing() {
    assert_eq!(read(vec![]), None);
    assert_eq!(read(vec![text("orders")]), None);
    assert_eq!(
        read(vec![AMQPValue::FieldTable(FieldTable::default())]),
        None
    );
    assert_eq!(Death::last(None), None);
}
