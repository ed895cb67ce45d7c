//! `recorded_by`: a unique constraint of the handler's own table, and what has to go with it.

use proc_macro2::Span;
use syn::{Error, LitStr, Result, parse::ParseStream};

use super::Arguments;
use crate::{
    idempotent::{key_source::KeySource, signature::Signature},
    mistakes::Mistakes,
};

/// The server cuts longer names off.
const LONGEST: usize = 63;

pub(super) fn parse(input: ParseStream<'_>) -> Result<LitStr> {
    let span = input.span();
    let literal: LitStr = input.parse().map_err(|_| {
        Error::new(
            span,
            "write the constraint's name in quotes: `recorded_by = \"payments_order_id_key\"`",
        )
    })?;
    match mistake(&literal.value()) {
        Some(message) => Err(Error::new(literal.span(), message)),
        None => Ok(literal),
    }
}

fn mistake(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some(
            "name the unique constraint of the handler's table: `recorded_by = \"payments_order_id_key\"`".into(),
        );
    }
    if name.len() > LONGEST || name.contains('\0') {
        return Some(format!(
            "no constraint has this name: use at most {LONGEST} bytes, none of them zero"
        ));
    }
    None
}

/// Looks at it together with the function and the other arguments.
pub(super) fn check(arguments: &Arguments, signature: Option<&Signature>, mistakes: &mut Mistakes) {
    let Some(span) = arguments.span_of("recorded_by") else {
        return;
    };
    if let Some(signature) = signature {
        connection(signature, span, mistakes);
    }
    key(arguments, span, mistakes);
    for name in ["fingerprint", "outdated"] {
        if let Some(span) = arguments.span_of(name) {
            let message = format!(
                "with `recorded_by`, nothing of a message or its output is kept: remove `{name}`"
            );
            mistakes.push(Error::new(span, message));
        }
    }
}

fn connection(signature: &Signature, span: Span, mistakes: &mut Mistakes) {
    if signature.connection().is_none() {
        mistakes.push(Error::new(
            span,
            "only what the handler writes in the store's transaction can be recorded by a constraint: take `db: &mut PgConnection` or `db: &mut SqliteConnection`, or remove `recorded_by`",
        ));
    }
    for token in signature.fencing_tokens() {
        mistakes.at(
            token,
            "with `recorded_by`, a first attempt has no claim and so no fencing token: remove `FencingToken` or `recorded_by`",
        );
    }
}

/// The parts stand in the columns, so they are written out, each with one source.
fn key(arguments: &Arguments, span: Span, mistakes: &mut Mistakes) {
    if let Some(span) = arguments.span_of("key_with") {
        mistakes.push(Error::new(
            span,
            "`recorded_by` needs to know what stands in which column: write `key = [\"order_id\"]`, one part for each column of the constraint, in their order",
        ));
        return;
    }
    if arguments.sequence.is_some() {
        mistakes.push(Error::new(
            span,
            "the numbers of a sequence are kept by the store, and `recorded_by` keeps nothing there: remove `recorded_by`, or name the constraint's columns as the key: `key = [\"device_id\", \"seq\"]`",
        ));
        return;
    }
    if arguments.span_of("key").is_none() {
        mistakes.push(Error::new(
            span,
            "`recorded_by` needs the parts of the key here: write `key = \"order_id\"`, one part for each column of the constraint, in their order",
        ));
    }
    for source in arguments.key.iter().flatten() {
        if let KeySource::First(_, span) = source {
            mistakes.push(Error::new(
                *span,
                "with `recorded_by`, each part stands in one column: name one source instead of `first(…)`",
            ));
        }
    }
}
