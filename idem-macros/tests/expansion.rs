//! What the generated code does when it runs.

#[path = "expansion/calls.rs"]
mod calls;
#[path = "expansion/fingerprints.rs"]
mod fingerprints;
#[path = "expansion/keys.rs"]
mod keys;
#[path = "expansion/policies.rs"]
mod policies;
#[path = "expansion/requests.rs"]
mod requests;
#[path = "expansion/sequences.rs"]
mod sequences;

use idem_core::{
    Envelope, Key,
    handler::Operation,
    message::{EnvelopeBuilder, KeyError},
};
use serde::Deserialize;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    customer: Customer,
    voucher: Option<String>,
    lines: (u8, bool),
}

#[derive(Deserialize)]
struct Customer {
    id: u64,
}

const ORDER: &str =
    r#"{"order_id": "o-17", "customer": {"id": 7}, "voucher": null, "lines": [3, true]}"#;

fn order() -> EnvelopeBuilder {
    Envelope::builder(ORDER)
}

fn key<H: Operation>(envelope: &Envelope) -> Result<Key, KeyError> {
    let message = H::decode(envelope).expect("the body is an order");
    H::key(&message, envelope)
}
