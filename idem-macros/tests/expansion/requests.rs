//! Handlers of requests, and how their remembered outputs are read again.

use std::borrow::Cow;

use idem_core::{
    Envelope, Failed, Outcome, Prepared, Refused, Request, handler::Operation, idempotent,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct CreateLease {
    name: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Lease {
    id: u64,
}

impl Request for CreateLease {
    type Reply = Lease;
    type Error = String;
}

#[idempotent(key = "name")]
async fn create(request: CreateLease) -> Result<Lease, Refused<String>> {
    drop(request.name);
    Ok(Lease { id: 1 })
}

/// It was a number alone.
fn first_form(output: &[u8]) -> Result<Lease, serde_json::Error> {
    let id = serde_json::from_slice(output)?;
    Ok(Lease { id })
}

#[idempotent(key = "name", outdated = first_form)]
async fn renew(request: CreateLease) -> Result<Lease, Refused<String>> {
    drop(request.name);
    Ok(Lease { id: 1 })
}

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[idempotent(key = "order_id")]
async fn charge(order: Order) -> Result<Lease, Failed> {
    drop(order.order_id);
    Ok(Lease { id: 1 })
}

#[test]
fn an_output_that_is_one_still_is_repeated_as_it_is() {
    let output = b"{ \"id\": 7, \"more\": true }";
    for recalled in [create::recall(output), renew::recall(output)] {
        assert!(matches!(recalled, Ok(Cow::Borrowed(same)) if same == output));
    }
}

#[test]
fn an_output_of_an_older_form_is_refused() {
    let refusal = create::recall(b"7").unwrap_err();
    assert_eq!(refusal.code(), "outcome-outdated");
    assert!(
        refusal.message().contains("an output of an older form"),
        "{refusal}"
    );
}

#[test]
fn an_output_of_an_older_form_is_encoded_anew_by_the_handlers_own_function() {
    let recalled = renew::recall(b"7").unwrap();
    assert_eq!(&*recalled, b"{\"id\":7}");
}

#[test]
fn an_output_that_the_handlers_own_function_cannot_read_is_refused_with_its_words() {
    let refusal = renew::recall(b"[]").unwrap_err();
    assert_eq!(refusal.code(), "outcome-outdated");
    assert!(refusal.message().contains("invalid type"), "{refusal}");
}

#[test]
fn the_output_of_a_handler_of_no_request_is_repeated_whatever_it_is() {
    assert_eq!(&*charge::recall(b"no JSON").unwrap(), b"no JSON");
}

#[test]
fn what_is_remembered_is_read_without_a_message() {
    let outcome = Outcome::new(&b"{\"id\":7}"[..]);
    assert_eq!(
        &*Prepared::<create>::recall(&outcome).unwrap(),
        b"{\"id\":7}"
    );
    let refused = Outcome::new(&b"!{\"code\":\"rejected\",\"message\":\"taken\"}"[..]);
    let refusal = Prepared::<create>::recall(&refused).unwrap_err();
    assert_eq!((refusal.code(), refusal.message()), ("rejected", "taken"));
}

#[test]
fn a_handler_of_a_request_is_called_like_any_other() {
    let envelope = Envelope::builder(r#"{"name":"n"}"#)
        .expects_reply(true)
        .build();
    assert!(Prepared::<create>::new(envelope, &create::POLICY).is_ok());
}
