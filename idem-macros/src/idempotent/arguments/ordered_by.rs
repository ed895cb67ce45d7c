//! `ordered_by`: what messages have in common that run one after the other.

use proc_macro2::Span;
use syn::{Error, LitStr, Result, parse::ParseStream};

use super::Arguments;
use crate::{
    idempotent::key_source::{self, KeySource},
    mistakes::Mistakes,
};

pub(super) fn parse(input: ParseStream<'_>) -> Result<Vec<KeySource>> {
    let sources = key_source::parse(input)?;
    match sources.iter().find_map(of_each_message) {
        Some(span) => Err(Error::new(
            span,
            "each message has its own, so that nothing waits for anything: name what they have in common, as in `ordered_by = \"customer_id\"`",
        )),
        None => Ok(sources),
    }
}

/// Where a source is named that each message has for itself.
fn of_each_message(source: &KeySource) -> Option<Span> {
    match source {
        KeySource::MessageId(span) | KeySource::Position(span) | KeySource::Content(span) => {
            Some(*span)
        }
        KeySource::First(sources, _) => sources.iter().find_map(of_each_message),
        KeySource::Field(_) | KeySource::Header(_) => None,
    }
}

/// Whether messages may overtake one that has failed.
pub(super) fn overtake(input: ParseStream<'_>) -> Result<bool> {
    const CURE: &str = "write `overtake = \"none\"` or `overtake = \"failed\"`";
    let span = input.span();
    let word: LitStr = input.parse().map_err(|_| Error::new(span, CURE))?;
    match word.value().as_str() {
        "none" => Ok(false),
        "failed" => Ok(true),
        _ => Err(Error::new(span, CURE)),
    }
}

/// Looks at it together with the other arguments.
pub(super) fn check(arguments: &Arguments, mistakes: &mut Mistakes) {
    let Some(span) = arguments.span_of("ordered_by") else {
        if let Some(span) = arguments.span_of("overtake") {
            mistakes.push(Error::new(
                span,
                "without `ordered_by` nothing waits for what has failed: write `ordered_by = \"customer_id\"` too, or remove `overtake`",
            ));
        }
        return;
    };
    if arguments.sequence.is_some() {
        mistakes.push(Error::new(
            span,
            "numbered messages have an order already, and one that is ahead would wait for those behind it: remove `ordered_by`",
        ));
    }
}
