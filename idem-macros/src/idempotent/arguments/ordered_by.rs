//! `ordered_by`: what messages have in common that run one after the other.

use syn::{Error, LitStr, Result, parse::ParseStream};

use super::Arguments;
use crate::{
    idempotent::key_source::{self, KeySource},
    mistakes::Mistakes,
};

pub(super) fn parse(input: ParseStream<'_>) -> Result<Vec<KeySource>> {
    let sources = key_source::parse(input)?;
    for source in &sources {
        if let KeySource::MessageId(span) | KeySource::Position(span) | KeySource::Content(span) =
            source
        {
            return Err(Error::new(
                *span,
                "each message has its own, so that nothing waits for anything: name what they have in common, as in `ordered_by = \"customer_id\"`",
            ));
        }
    }
    Ok(sources)
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
