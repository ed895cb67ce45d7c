//! How many attempts a message tells of.

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};

use super::*;
use crate::{wire::delivery::Origin, wire::ladder::RETURN};

/// A delivery of an exchange's with these headers.
fn from(exchange: &str, headers: &[(&str, AMQPValue)]) -> Delivery {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        table.insert((*name).into(), value.clone());
    }
    Delivery::new(Origin {
        unreadable: None,
        comes_back_to: None,
        partition: None,
        queue: "orders".into(),
        exchange: exchange.into(),
        routing_key: "orders".into(),
        redelivered: false,
        properties: BasicProperties::default().with_headers(table),
    })
}

fn published(headers: &[(&str, AMQPValue)]) -> Delivery {
    from("", headers)
}

/// From the retry ladder.
fn comes_back_with(attempt: u32, headers: &[(&str, AMQPValue)]) -> Delivery {
    let own = [(ATTEMPT, AMQPValue::LongUInt(attempt))];
    from(RETURN, &[&own, headers].concat())
}

fn count(name: &'static str, count: i64) -> (&'static str, AMQPValue) {
    (name, AMQPValue::LongLongInt(count))
}

#[test]
fn attempts_from_before_the_ladder_and_those_the_broker_has_counted_since_are_added_up() {
    let counted = count("x-delivery-count", 2);
    assert_eq!(attempts(&comes_back_with(3, &[counted])), 5);
}

#[test]
fn what_never_was_on_the_ladder_was_attempted_as_often_as_the_broker_has_counted() {
    assert_eq!(attempts(&published(&[])), 0);
    assert_eq!(attempts(&published(&[count("x-delivery-count", 2)])), 2);
    // From RabbitMQ 4.3 on it has returns that do not count towards the limit, too.
    let both = [count("x-delivery-count", 2), count("x-acquired-count", 4)];
    assert_eq!(attempts(&published(&both)), 4);
}

#[test]
fn what_comes_from_the_ladder_was_attempted_before_also_where_the_broker_does_not_count() {
    assert_eq!(attempts(&comes_back_with(3, &[])), 3);
}

#[test]
fn a_count_of_the_publishers_own_is_none_of_ours() {
    let own = published(&[(ATTEMPT, AMQPValue::LongUInt(3))]);
    assert_eq!(attempts(&own), 0);
}

#[test]
fn a_sum_that_is_too_large_stays_the_largest() {
    let counted = count("x-delivery-count", 2);
    assert_eq!(attempts(&comes_back_with(u32::MAX, &[counted])), u32::MAX);
}
