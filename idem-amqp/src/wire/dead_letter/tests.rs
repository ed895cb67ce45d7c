//! What a dead letter says, keeps and leaves behind.

use std::time::{Duration, UNIX_EPOCH};

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, ShortString},
};

use super::*;
use crate::wire::{
    delivery::Origin,
    headers::{
        AWAITED, EPOCH, EXCHANGE, EXPIRATION, FIRST_FAILURE, HEADERS_CUT, LAST_FAILURE, NUMBER,
        PARTITION, PRODUCER, QUEUE, ROUTING_KEY, SEQUENCE, SESSION,
    },
    ladder::RETURN,
};

fn delivery(properties: BasicProperties) -> Delivery {
    delivery_from("shop", properties)
}

fn delivery_from(exchange: &str, properties: BasicProperties) -> Delivery {
    Delivery::new(Origin {
        unreadable: None,
        comes_back_to: None,
        partition: None,
        queue: "orders".into(),
        exchange: exchange.into(),
        routing_key: "order.placed".into(),
        redelivered: true,
        properties,
    })
}

fn letter(properties: BasicProperties, error: &str) -> BasicProperties {
    let death = DeathInfo {
        reason: Reason::Rejected,
        error,
        attempt: 3,
        key: None,
        at: UNIX_EPOCH,
    };
    dead_letter(&delivery(properties), b"{}", &death, ("", "orders.dead")).into_properties()
}

fn header(properties: &BasicProperties, name: &str) -> Option<String> {
    let value = properties.headers().as_ref()?.inner().get(name)?;
    Some(match value {
        AMQPValue::LongString(text) => text.to_string(),
        AMQPValue::LongUInt(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

/// Somebody has moved it back by hand, so it is not believed. A replay of its letter is.
#[test]
fn an_offset_does_not_outlive_the_partition_that_it_is_in() {
    let has_offset = |partition: Option<&str>, exchange: &str| {
        let mut headers = FieldTable::default();
        headers.insert("x-stream-offset".into(), AMQPValue::LongLongInt(7));
        if let Some(partition) = partition {
            let partition = AMQPValue::LongString(partition.into());
            headers.insert(PARTITION.into(), partition);
        }
        let properties = BasicProperties::default().with_headers(headers);
        let delivery = delivery_from(exchange, properties);
        let again = Republished::of(&delivery).publication("", "orders.dead", b"{}");
        header(&again.into_properties(), "x-stream-offset").is_some()
    };
    assert!(has_offset(Some("ledger-1"), RETURN), "from the ladder");
    assert!(!has_offset(Some("ledger-1"), ""), "whose offset is it?");
    assert!(has_offset(None, ""), "of a stream that is no partition");
}

#[test]
fn a_dead_letter_says_why_and_where_it_came_from() {
    let letter = letter(BasicProperties::default(), "amount must be positive");
    let expected = [
        (REASON, "rejected"),
        (ERROR, "amount must be positive"),
        (ATTEMPT, "3"),
        (QUEUE, "orders"),
        (EXCHANGE, "shop"),
        (ROUTING_KEY, "order.placed"),
    ];
    for (name, value) in expected {
        assert_eq!(header(&letter, name).as_deref(), Some(value), "{name}");
    }
}

#[test]
fn what_the_publisher_said_is_kept() {
    let mut headers = FieldTable::default();
    headers.insert("x-tenant".into(), AMQPValue::LongString("acme".into()));
    let sent = BasicProperties::default()
        .with_message_id("m-1".into())
        .with_correlation_id("c-1".into())
        .with_type("order".into())
        .with_headers(headers);
    let letter = letter(sent, "no");
    assert_eq!(
        letter.message_id().as_ref().map(ShortString::as_str),
        Some("m-1")
    );
    assert_eq!(
        letter.correlation_id().as_ref().map(ShortString::as_str),
        Some("c-1")
    );
    assert_eq!(
        letter.kind().as_ref().map(ShortString::as_str),
        Some("order")
    );
    assert_eq!(header(&letter, "x-tenant").as_deref(), Some("acme"));
}

#[test]
fn what_would_harm_a_second_publish_is_taken_off() {
    let mut headers = FieldTable::default();
    for name in [
        "CC",
        "BCC",
        "x-death",
        "x-first-death-queue",
        "x-delivery-count",
    ] {
        headers.insert(name.into(), AMQPValue::LongString("x".into()));
    }
    let sent = BasicProperties::default()
        .with_user_id("somebody".into())
        .with_expiration("1000".into())
        .with_headers(headers);
    let letter = letter(sent, "no");
    assert_eq!(letter.user_id(), &None);
    assert_eq!(letter.expiration(), &None);
    assert_eq!(header(&letter, EXPIRATION).as_deref(), Some("1000"));
    for name in [
        "CC",
        "BCC",
        "x-death",
        "x-first-death-queue",
        "x-delivery-count",
    ] {
        assert_eq!(header(&letter, name), None, "{name}");
    }
}

#[test]
fn a_dead_letter_is_persistent_whatever_the_message_was() {
    let sent = BasicProperties::default().with_delivery_mode(1);
    assert_eq!(letter(sent, "no").delivery_mode(), &Some(2));
}

#[test]
fn headers_that_would_outgrow_a_frame_are_left_behind_and_that_is_said() {
    let mut headers = FieldTable::default();
    let huge = AMQPValue::LongString("x".repeat(130_000).into());
    headers.insert("a-huge".into(), huge);
    headers.insert("b-small".into(), AMQPValue::LongString("kept".into()));
    let letter = letter(BasicProperties::default().with_headers(headers), "no");
    assert_eq!(header(&letter, "a-huge"), None);
    assert_eq!(header(&letter, "b-small").as_deref(), Some("kept"));
    assert_eq!(
        header(&letter, HEADERS_CUT).as_deref(),
        Some("Boolean(true)")
    );
}

#[test]
fn where_a_message_stands_is_carried_over_before_all_that_is_large() {
    let mut headers = FieldTable::default();
    let large = AMQPValue::LongString("x".repeat(102_300).into());
    headers.insert("a-large".into(), large);
    let names = [SESSION, NUMBER, AWAITED, PRODUCER, EPOCH, SEQUENCE];
    for name in names {
        headers.insert(name.into(), AMQPValue::LongLongInt(7));
    }
    let letter = letter(BasicProperties::default().with_headers(headers), "no");
    for name in names {
        let seven = Some("LongLongInt(7)".to_owned());
        assert_eq!(header(&letter, name), seven, "{name}");
    }
    assert_eq!(header(&letter, "a-large"), None);
}

#[test]
fn a_long_error_is_cut_at_a_character() {
    let letter = letter(BasicProperties::default(), &"ö".repeat(1000));
    assert_eq!(header(&letter, ERROR).map(|error| error.len()), Some(1024));
}

#[test]
fn a_dead_letter_of_a_message_that_was_sent_again_still_says_where_it_first_came_from() {
    let first = letter(
        BasicProperties::default().with_expiration("1000".into()),
        "no",
    );
    let replayed = Delivery::new(Origin {
        unreadable: None,
        comes_back_to: None,
        partition: None,
        queue: "orders".into(),
        exchange: "".into(),
        routing_key: "orders".into(),
        redelivered: false,
        properties: first,
    });
    let death = DeathInfo {
        reason: Reason::Rejected,
        error: "no again",
        attempt: 1,
        key: None,
        at: UNIX_EPOCH,
    };
    let again = dead_letter(&replayed, b"{}", &death, ("", "orders.dead")).into_properties();
    let expected = [
        (ERROR, "no again"),
        (EXCHANGE, "shop"),
        (ROUTING_KEY, "order.placed"),
        (EXPIRATION, "1000"),
    ];
    for (name, value) in expected {
        assert_eq!(header(&again, name).as_deref(), Some(value), "{name}");
    }
}

/// The first and the last failure, in seconds, of a message that fails at second 70.
fn failures(headers: FieldTable, reason: Reason, attempt: u32) -> (Option<u64>, Option<u64>) {
    let death = DeathInfo {
        reason,
        error: "no",
        attempt,
        key: None,
        at: UNIX_EPOCH + Duration::from_millis(70_900),
    };
    let sent = delivery(BasicProperties::default().with_headers(headers));
    let letter = dead_letter(&sent, b"{}", &death, ("", "orders.dead")).into_properties();
    let headers = letter.headers().clone().unwrap_or_default();
    let time = |name| headers.inner().get(name).and_then(AMQPValue::as_timestamp);
    (time(FIRST_FAILURE), time(LAST_FAILURE))
}

#[test]
fn the_first_failure_is_told_only_where_it_is_known() {
    let table = [
        (Reason::Rejected, 1, Some(70)),
        (Reason::Rejected, 2, None),
        (Reason::Exhausted, 3, None),
        (Reason::Undecodable, 0, Some(70)),
        (Reason::InDoubt, 0, None),
    ];
    for (reason, attempt, first) in table {
        let told = failures(FieldTable::default(), reason, attempt);
        assert_eq!(told, (first, Some(70)), "{reason:?}, attempt {attempt}");
    }
}

#[test]
fn the_first_failure_that_an_earlier_republish_told_stays_the_first() {
    let mut headers = FieldTable::default();
    headers.insert(FIRST_FAILURE.into(), AMQPValue::Timestamp(50));
    headers.insert(LAST_FAILURE.into(), AMQPValue::Timestamp(60));
    for attempt in [1, 3] {
        let told = failures(headers.clone(), Reason::Rejected, attempt);
        assert_eq!(told, (Some(50), Some(70)), "attempt {attempt}");
    }
}
