//! Keys that are places in a producer's sequence.

use std::time::Duration;

use idem_core::{
    Envelope, Failed, Key,
    handler::Operation,
    idempotent,
    message::{KeyError, SequencePlace},
};
use serde::Deserialize;

use crate::key;

#[derive(Deserialize)]
struct Reading {
    device_id: String,
    boot: Option<u32>,
    seq: u64,
}

#[idempotent(key = sequence(producer = "device_id", number = "seq"))]
async fn store(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(
    scope = "readings.store",
    key = sequence(
        producer = [header("x-site"), device_id],
        epoch = boot,
        number = header("x-seq"),
        window = 50,
        skip_gaps_after = "10m",
    )
)]
async fn store_all_given(reading: Reading) -> Result<(), Failed> {
    drop(reading);
    Ok(())
}

#[idempotent(key = sequence())]
async fn store_stamped(reading: Reading) -> Result<(), Failed> {
    drop(reading);
    Ok(())
}

#[idempotent(key = ["device_id", "seq"])]
async fn store_each(reading: Reading) -> Result<(), Failed> {
    drop(reading);
    Ok(())
}

fn place<H: Operation>(envelope: &Envelope) -> Result<SequencePlace, KeyError> {
    let numbered = H::SEQUENCE.expect("its messages are numbered");
    let message = H::decode(envelope).expect("the body is a reading");
    numbered.place(&message, envelope)
}

fn reading() -> idem_core::message::EnvelopeBuilder {
    Envelope::builder(r#"{"device_id": "d-7", "boot": 3, "seq": 17}"#)
}

fn sequence(parts: &[&str]) -> Key {
    let (scope, parts) = parts.split_first().expect("the scope comes first");
    let builder = Key::builder(scope);
    let builder = (parts.iter()).fold(builder, |key, part| key.part("part", *part));
    builder.build().expect("all parts are there")
}

#[test]
fn producer_and_number_are_a_place_under_the_handlers_scope() {
    let expected = SequencePlace::new(sequence(&["idem-macros.store", "d-7"]), 17);
    assert_eq!(place::<store>(&reading().build()), Ok(expected));
}

#[test]
fn the_key_is_that_of_the_place() {
    let envelope = reading().build();
    assert_eq!(
        key::<store>(&envelope).unwrap().as_str(),
        "idem-macros.store:d-7~17"
    );
    assert_eq!(
        key::<store>(&envelope),
        place::<store>(&envelope).map(|place| place.key())
    );
}

#[test]
fn everything_given_is_in_the_place() {
    let envelope = reading().header("x-site", "s-1").header("x-seq", "9");
    let expected = SequencePlace::new(sequence(&["readings.store", "s-1", "d-7", "3"]), 9)
        .window(50)
        .skip_after(Duration::from_mins(10));
    assert_eq!(place::<store_all_given>(&envelope.build()), Ok(expected));
}

#[test]
fn a_message_without_its_number_producer_or_epoch_has_no_key() {
    let missing = |part: &str| Err(KeyError::Missing { part: part.into() });
    let envelope = reading().header("x-site", "s-1").build();
    assert_eq!(key::<store_all_given>(&envelope), missing("header(x-seq)"));
    let envelope = reading().header("x-seq", "9").build();
    assert_eq!(key::<store_all_given>(&envelope), missing("header(x-site)"));
    let envelope = Envelope::builder(r#"{"device_id": "d-7", "boot": null, "seq": 17}"#)
        .header("x-site", "s-1")
        .header("x-seq", "9");
    assert_eq!(key::<store_all_given>(&envelope.build()), missing("boot"));
}

#[test]
fn a_number_that_is_none_makes_no_key() {
    let envelope = reading().header("x-site", "s-1").header("x-seq", "9b");
    let error = KeyError::Number {
        part: "header(x-seq)".into(),
        found: "9b".into(),
    };
    assert_eq!(key::<store_all_given>(&envelope.build()), Err(error));
}

#[test]
fn without_arguments_the_publishers_stamps_are_the_place() {
    let envelope = reading()
        .header("idem-producer", "till-4")
        .header("idem-epoch", "0199")
        .header("idem-sequence", "0");
    let expected = SequencePlace::new(
        sequence(&["idem-macros.store_stamped", "till-4", "0199"]),
        0,
    );
    assert_eq!(place::<store_stamped>(&envelope.build()), Ok(expected));
}

#[test]
fn a_key_of_parts_numbers_nothing() {
    assert!(store_each::SEQUENCE.is_none());
}
