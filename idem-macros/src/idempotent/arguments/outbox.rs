//! Whether a handler with an outbox is one whose effects commit with what it publishes.

use super::Arguments;
use crate::{idempotent::signature::Signature, mistakes::Mistakes};

/// Looks at the outbox together with the function and its arguments.
pub(super) fn check(arguments: &Arguments, signature: Option<&Signature>, mistakes: &mut Mistakes) {
    let Some((signature, outbox)) = signature.and_then(|it| Some((it, it.outbox()?))) else {
        return;
    };
    if !signature.is_atomic() {
        mistakes.at(
            outbox,
            "a leased handler has no outbox, because nothing of it commits together: take a `&mut` connection, or publish by yourself, under the id `key.derive_id(\"shipped\")`",
        );
    }
    if arguments.span_of("recorded_by").is_some() {
        mistakes.at(
            outbox,
            "a handler that is recorded by its own table has no outbox: remove `recorded_by`",
        );
    }
    let (taken, of_batch) = (
        quote::quote!(#outbox).to_string(),
        arguments.span_of("batch").is_some(),
    );
    match (of_batch, taken.ends_with("Outboxes")) {
        (true, false) => mistakes.at(
            outbox,
            "each message of a batch has an outbox of its own: take `outboxes: Outboxes`, and publish by \
             `outboxes[i]` what comes of the message at place `i`",
        ),
        (false, true) => mistakes.at(outbox, "without `batch` there is one message: take `outbox: Outbox`"),
        _ => {}
    }
}
