//! `batch`: how many messages share a call of the handler, and what has to go with it.

use proc_macro2::Span;
use syn::{Error, LitInt, Result, parse::ParseStream};

use super::{Arguments, StoreOutage};
use crate::{
    idempotent::{arguments::InDoubt, signature::Signature},
    mistakes::Mistakes,
};

/// More are not noticeably cheaper for each, and are called again when one of them fails.
const LARGEST: usize = 4096;

pub(super) fn parse(input: ParseStream<'_>) -> Result<LitInt> {
    const CURE: &str = "write a number from 2 to 4096, such as `batch = 256`";
    let span = input.span();
    let number = input.parse::<LitInt>();
    let number = number.map_err(|_| Error::new(span, CURE))?;
    match number.base10_parse::<usize>() {
        Ok(2..=LARGEST) => Ok(number),
        Ok(0 | 1) => Err(Error::new(
            span,
            "a handler that is called with one message needs no batch: write at least 2, or remove `batch`",
        )),
        _ => Err(Error::new(span, CURE)),
    }
}

pub(super) fn bytes(input: ParseStream<'_>) -> Result<LitInt> {
    const CURE: &str = "write a number of bytes, such as `batch_bytes = 1048576`";
    let span = input.span();
    let number = input.parse::<LitInt>();
    let number = number.map_err(|_| Error::new(span, CURE))?;
    match number.base10_parse::<usize>() {
        Ok(1..) => Ok(number),
        _ => Err(Error::new(span, CURE)),
    }
}

/// Looks at it together with the function and the other arguments.
pub(super) fn check(arguments: &Arguments, signature: Option<&Signature>, mistakes: &mut Mistakes) {
    let Some(span) = arguments.span_of("batch") else {
        for name in ["batch_bytes", "batch_wait"] {
            if let Some(span) = arguments.span_of(name) {
                let message = format!(
                    "without `batch` there are no batches: write `batch = 256` too, or remove `{name}`"
                );
                mistakes.push(Error::new(span, message));
            }
        }
        return;
    };
    if let Some(signature) = signature
        && signature.of_batch().is_none()
    {
        let message = &signature.message;
        let written = quote::quote!(#message).to_string();
        mistakes.at(
            message,
            format!(
                "with `batch`, the handler takes several messages: write `Batch<{written}>`, or remove `batch`"
            ),
        );
    }
    if let Some(wait) = arguments.batch_wait.filter(|it| it.duration.is_zero()) {
        mistakes.push(Error::new(
            wait.span,
            "a batch that waits for nothing is what there is without it: remove `batch_wait`",
        ));
    }
    others(arguments, span, mistakes);
}

/// What does not go together with it.
fn others(arguments: &Arguments, span: Span, mistakes: &mut Mistakes) {
    if arguments.span_of("group").is_some() {
        mistakes.push(Error::new(
            span,
            "a batch has one transaction for all its messages, and needs no group: remove `group`",
        ));
    }
    if arguments.span_of("recorded_by").is_some() {
        mistakes.push(Error::new(
            span,
            "with `recorded_by`, nothing is claimed, and a copy may be in the same batch: remove `batch` or `recorded_by`",
        ));
    }
    if arguments.sequence.is_some() {
        mistakes.push(Error::new(
            span,
            "the messages of a sequence are handled one by one: remove `batch`, or name another key",
        ));
    }
    if let Some(InDoubt(in_doubt)) = &arguments.in_doubt
        && in_doubt == "Quarantine"
    {
        mistakes.at(
            in_doubt,
            "a batch that is stopped leaves all its messages in doubt, and is called again with each of them: remove `in_doubt` or `batch`",
        );
    }
    if let Some(StoreOutage(outage)) = &arguments.store_outage
        && outage == "FailOpen"
    {
        mistakes.at(
            outage,
            "only what the store has claimed is in a batch: remove `store_outage` or `batch`",
        );
    }
}
