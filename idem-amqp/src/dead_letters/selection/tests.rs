//! Which letters a selection picks.

use std::time::{Duration, UNIX_EPOCH};

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};

use super::*;
use crate::wire::{
    delivery::{Delivery, Origin},
    headers::{KEY, LAST_FAILURE, REASON},
};

fn at(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(second)
}

fn letter(headers: &[(&str, AMQPValue)]) -> DeadLetter {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        table.insert((*name).into(), value.clone());
    }
    let delivery = Delivery::new(Origin {
        unreadable: None,
        comes_back_to: None,
        partition: None,
        queue: "orders.dead".into(),
        exchange: "".into(),
        routing_key: "orders.dead".into(),
        redelivered: false,
        properties: BasicProperties::default()
            .with_message_id("m-1".into())
            .with_headers(table),
    });
    DeadLetter::new(delivery, b"{}".to_vec(), &[])
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

#[test]
fn a_letter_is_picked_if_it_meets_every_condition() {
    let letter = letter(&[
        (REASON, text("rejected")),
        (KEY, text("charge:a")),
        (LAST_FAILURE, AMQPValue::Timestamp(70)),
    ]);
    let all = Selection::all;
    let table = [
        (all(), true),
        (all().reason("rejected"), true),
        (all().reason("exhausted"), false),
        (all().reason("exhausted").reason("rejected"), true),
        (all().key("charge:a"), true),
        (all().key("charge:"), false),
        (all().key("charge:b").key("charge:a"), true),
        (all().message_id("m-1"), true),
        (all().message_id("m-2"), false),
        (all().failed_after(at(70)), true),
        (all().failed_after(at(71)), false),
        (all().failed_before(at(71)), true),
        (all().failed_before(at(70)), false),
        (all().matching(|letter| letter.body() == b"{}"), true),
        (all().matching(|letter| letter.body().is_empty()), false),
        (all().matching(|_| true).matching(|_| false), false),
        (all().reason("rejected").key("charge:b"), false),
    ];
    for (selection, picked) in table {
        assert_eq!(selection.picks(&letter), picked, "{selection:?}");
    }
}

#[test]
fn a_letter_that_does_not_say_is_not_picked_by_what_it_does_not_say() {
    let silent = letter(&[]);
    assert!(Selection::all().reason("unknown").picks(&silent));
    assert!(!Selection::all().key("").picks(&silent));
    assert!(!Selection::all().failed_after(at(0)).picks(&silent));
    assert!(!Selection::all().failed_before(at(1_000)).picks(&silent));
}
