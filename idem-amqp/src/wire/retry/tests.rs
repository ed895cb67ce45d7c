//! What a message on the ladder says, keeps and leaves behind.

use std::time::UNIX_EPOCH;

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};

use super::*;
use crate::wire::{
    delivery::Origin,
    headers::{EXCHANGE, ROUTING_KEY},
};

const RUNG: Duration = Duration::from_secs(5);

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn delivery(properties: BasicProperties) -> Delivery {
    delivered(properties, false)
}

/// From its publisher, or from the ladder if idem has said something.
fn delivered(properties: BasicProperties, redelivered: bool) -> Delivery {
    let comes_back = properties.headers().is_some();
    let (exchange, routing_key) = if comes_back {
        ("idem.return", "orders")
    } else {
        ("shop", "order.placed")
    };
    Delivery::new(Origin {
        unreadable: None,
        comes_back_to: None,
        partition: None,
        queue: "orders".into(),
        exchange: exchange.into(),
        routing_key: routing_key.into(),
        redelivered,
        properties,
    })
}

const FAILURE: FailureInfo<'_> = FailureInfo {
    attempt: Some(2),
    error: Some("the gateway timed out"),
    key: None,
};

const CONFLICT: FailureInfo<'_> = FailureInfo {
    attempt: None,
    error: None,
    key: None,
};

fn retried(properties: BasicProperties, failure: &FailureInfo<'_>, now: u64) -> BasicProperties {
    retry(&delivery(properties), b"{}", failure, RUNG, at(now)).into_properties()
}

fn said(properties: &BasicProperties) -> Vec<(String, String)> {
    let headers = properties.headers().as_ref().unwrap().inner();
    let shown = headers.iter().map(|(name, value)| {
        let value = match value {
            AMQPValue::LongString(text) => text.to_string(),
            AMQPValue::LongUInt(number) => number.to_string(),
            AMQPValue::Timestamp(seconds) => format!("@{seconds}"),
            other => panic!("{other:?}"),
        };
        (name.to_string(), value)
    });
    shown.collect()
}

#[track_caller]
fn assert_said(properties: &BasicProperties, expected: &[(&str, &str)]) {
    let origin = [
        ("idem-exchange", "shop"),
        ("idem-queue", "orders"),
        ("idem-routing-key", "order.placed"),
    ];
    let both = origin.iter().chain(expected);
    let mut expected: Vec<_> = both
        .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
        .collect();
    expected.sort();
    assert_eq!(said(properties), expected);
}

#[test]
fn a_failure_is_told_with_its_attempt_and_its_times() {
    let first = retried(BasicProperties::default(), &FAILURE, 100);
    let expected = [
        ("idem-error", "the gateway timed out"),
        ("idem-attempt", "2"),
        ("idem-first-failure", "@100"),
        ("idem-last-failure", "@100"),
    ];
    assert_said(&first, &expected);
}

#[test]
fn the_time_of_the_first_failure_is_kept() {
    let first = retried(BasicProperties::default(), &FAILURE, 100);
    let again = FailureInfo {
        attempt: Some(3),
        error: Some("no"),
        key: None,
    };
    let expected = [
        ("idem-error", "no"),
        ("idem-attempt", "3"),
        ("idem-first-failure", "@100"),
        ("idem-last-failure", "@130"),
    ];
    assert_said(&retried(first, &again, 130), &expected);
}

#[test]
fn a_conflict_keeps_what_was_said_and_is_counted() {
    let failed = retried(BasicProperties::default(), &FAILURE, 100);
    let once = retried(failed, &CONFLICT, 200);
    let twice = retried(once, &CONFLICT, 300);
    let expected = [
        ("idem-error", "the gateway timed out"),
        ("idem-attempt", "2"),
        ("idem-conflicts", "2"),
        ("idem-first-failure", "@100"),
        ("idem-last-failure", "@100"),
    ];
    assert_eq!(conflicts(&delivery(twice.clone())), 2);
    assert_said(&twice, &expected);
}

#[test]
fn conflicts_are_counted_anew_after_an_attempt() {
    let conflict = retried(BasicProperties::default(), &CONFLICT, 100);
    assert_eq!(conflicts(&delivery(conflict.clone())), 1);
    let failed = retried(conflict, &FAILURE, 200);
    assert_eq!(conflicts(&delivery(failed)), 0);
}

fn replayed() -> BasicProperties {
    let mut letter = Republished::of(&delivery(BasicProperties::default()));
    letter.text(REASON, "in-doubt");
    let letter = letter.publication("", "orders.dead", b"{}");
    letter.into_properties()
}

#[test]
fn a_replay_that_met_a_conflict_is_still_a_replay() {
    assert!(delivery(replayed()).starts_over());
    let conflict = retried(replayed(), &CONFLICT, 100);
    assert!(delivery(conflict).starts_over());
}

#[test]
fn a_replay_that_ran_is_none_any_more() {
    let failed = retried(replayed(), &FAILURE, 100);
    assert!(!delivery(failed).is_replay());
}

#[test]
fn a_replay_that_may_have_run_does_not_start_over_by_a_conflict() {
    let again = delivered(replayed(), true);
    let conflict = retry(&again, b"{}", &CONFLICT, RUNG, at(100)).into_properties();
    assert!(!delivery(conflict).starts_over());
}

#[test]
fn a_huge_header_that_pretends_to_be_ours_is_cut() {
    let mut forged = Republished::of(&delivery(BasicProperties::default()));
    forged.text(ERROR, "no");
    let mut properties = forged.publication("", "orders", b"{}").into_properties();
    let mut headers = properties.headers().clone().unwrap();
    headers.insert(
        ERROR.into(),
        AMQPValue::LongString("x".repeat(100_000).into()),
    );
    properties = properties.with_headers(headers);
    let conflict = retried(properties, &CONFLICT, 100);
    let error = said(&conflict).into_iter().find(|(name, _)| name == ERROR);
    assert_eq!(error.map(|(_, value)| value.len()), Some(1024));
}

#[test]
fn what_a_publisher_says_in_our_name_is_not_believed() {
    let mut headers = FieldTable::default();
    let text = |text: &str| AMQPValue::LongString(text.into());
    headers.insert(CONFLICTS.into(), AMQPValue::LongUInt(6));
    headers.insert(EXCHANGE.into(), text("internal.admin"));
    headers.insert(ROUTING_KEY.into(), text("refund.approved"));
    headers.insert(REASON.into(), text("rejected"));
    let forged = Delivery::new(Origin {
        unreadable: None,
        comes_back_to: None,
        partition: None,
        queue: "orders".into(),
        exchange: "shop".into(),
        routing_key: "order.placed".into(),
        redelivered: false,
        properties: BasicProperties::default().with_headers(headers),
    });
    assert_eq!(conflicts(&forged), 0);
    assert_eq!(forged.exchange(), "shop");
    assert_eq!(forged.routing_key(), "order.placed");
    assert!(!forged.is_replay(), "it does not name this queue");
}

#[test]
fn a_header_of_the_publishers_that_only_begins_like_ours_is_kept() {
    let mut headers = FieldTable::default();
    let id = AMQPValue::LongString("o-17".into());
    headers.insert("idem-id".into(), id.clone());
    let message = BasicProperties::default().with_headers(headers);
    let again = retried(message, &FAILURE, 100);
    assert_eq!(
        again.headers().as_ref().unwrap().inner().get("idem-id"),
        Some(&id)
    );
}
