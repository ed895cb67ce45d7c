//! The values of single arguments.

use quote::ToTokens;
use syn::{
    Error, Ident, LitInt, LitStr, Path, Result, bracketed, ext::IdentExt, parse::ParseStream,
    token::Bracket,
};

use crate::{
    idempotent::{field_path::FieldPath, list, scope},
    mistakes::Mistakes,
};

/// `in_doubt = "retry"` or `"quarantine"`, as the variant of `InDoubt` that it means.
pub(in crate::idempotent) struct InDoubt(pub(in crate::idempotent) Ident);

/// `store_outage = "fail_closed"` or `"fail_open"`, as the variant of `StoreOutage` that it means.
pub(in crate::idempotent) struct StoreOutage(pub(in crate::idempotent) Ident);

/// `enforcement = "observe"`, `"plain"` or `"enforce"`, as the variant of `Enforcement` that it means.
pub(in crate::idempotent) struct Enforcement(pub(in crate::idempotent) Ident);

/// `fingerprint = off`, or of some fields.
pub(in crate::idempotent) enum Fingerprint {
    Off,
    Fields(Vec<FieldPath>),
}

pub(super) fn path(input: ParseStream<'_>, name: &Ident, example: &str) -> Result<Path> {
    input.call(Path::parse_mod_style).map_err(|error| {
        Error::new(
            error.span(),
            format!("write `{name} = {example}`, without quotes or parentheses"),
        )
    })
}

pub(super) fn scope(input: ParseStream<'_>) -> Result<LitStr> {
    let literal: LitStr = input
        .parse()
        .map_err(|error| Error::new(error.span(), "write `scope = \"orders.charge\"`"))?;
    match scope::mistake(&literal.value()) {
        Some(message) => Err(Error::new(literal.span(), message)),
        None => Ok(literal),
    }
}

pub(super) fn header(input: ParseStream<'_>) -> Result<LitStr> {
    const CURE: &str = "write the name of a header, such as `time_header = \"x-made-at\"`";
    let span = input.span();
    let name: LitStr = input.parse().map_err(|_| Error::new(span, CURE))?;
    if name.value().is_empty() {
        return Err(Error::new(span, CURE));
    }
    Ok(name)
}

pub(super) fn max_attempts(input: ParseStream<'_>) -> Result<LitInt> {
    const CURE: &str = "write a number from 1 to 4294967295, such as `max_attempts = 10`";
    let span = input.span();
    let number = input.parse::<LitInt>();
    let number = number.map_err(|_| Error::new(span, CURE))?;
    match number.base10_parse::<u32>() {
        Ok(0) => Err(Error::new(
            span,
            "no attempt would ever run: write at least 1",
        )),
        Ok(_) => Ok(number),
        Err(_) => Err(Error::new(span, CURE)),
    }
}

/// In bytes. The limit is `idem_core::Policy`'s, which checks it again when it is built.
pub(super) fn max_outcome(input: ParseStream<'_>) -> Result<LitInt> {
    const CURE: &str = "write a number of bytes from 1 to 8388608, such as `max_outcome = 65536`";
    let span = input.span();
    let number = input.parse::<LitInt>();
    let number = number.map_err(|_| Error::new(span, CURE))?;
    match number.base10_parse::<usize>() {
        Ok(0) => Err(Error::new(
            span,
            "no output could be remembered: write at least 1",
        )),
        Ok(LARGER_OUTCOME..) => Err(Error::new(
            span,
            "an outcome has at most 8388608 bytes: keep what is larger elsewhere, and return where",
        )),
        Ok(_) => Ok(number),
        Err(_) => Err(Error::new(span, CURE)),
    }
}

const LARGER_OUTCOME: usize = 8 * 1024 * 1024 + 1;

/// A word, bare or in quotes.
fn word(input: ParseStream<'_>) -> Result<Ident> {
    if input.peek(LitStr) {
        let literal: LitStr = input.parse()?;
        literal.parse_with(Ident::parse_any)
    } else {
        input.call(Ident::parse_any)
    }
}

pub(super) fn store_outage(input: ParseStream<'_>) -> Result<StoreOutage> {
    const CURE: &str = "write `store_outage = \"fail_closed\"` or `store_outage = \"fail_open\"`";
    let word = word(input).map_err(|error| Error::new(error.span(), CURE))?;
    let variant = match word.to_string().as_str() {
        "fail_closed" => "FailClosed",
        "fail_open" => "FailOpen",
        _ => return Err(Error::new(word.span(), CURE)),
    };
    Ok(StoreOutage(Ident::new(variant, word.span())))
}

pub(super) fn enforcement(input: ParseStream<'_>) -> Result<Enforcement> {
    const CURE: &str = "write `enforcement = \"observe\"` or `enforcement = \"plain\"`, or leave `enforcement` out to enforce what is not to run twice";
    let word = word(input).map_err(|error| Error::new(error.span(), CURE))?;
    let variant = match word.to_string().as_str() {
        "observe" => "Observe",
        "plain" => "Plain",
        "enforce" => "Enforce",
        _ => return Err(Error::new(word.span(), CURE)),
    };
    Ok(Enforcement(Ident::new(variant, word.span())))
}

pub(super) fn in_doubt(input: ParseStream<'_>) -> Result<InDoubt> {
    const CURE: &str = "write `in_doubt = \"retry\"` or `in_doubt = \"quarantine\"`";
    let word = word(input).map_err(|error| Error::new(error.span(), CURE))?;
    let variant = match word.to_string().as_str() {
        "retry" => "Retry",
        "quarantine" => "Quarantine",
        _ => return Err(Error::new(word.span(), CURE)),
    };
    Ok(InDoubt(Ident::new(variant, word.span())))
}

pub(super) fn fingerprint(input: ParseStream<'_>) -> Result<Fingerprint> {
    const CURE: &str =
        "write `fingerprint = off`, or the fields to compare: `fingerprint = [\"amount_cents\"]`";
    if input.peek(Bracket) {
        let content;
        let brackets = bracketed!(content in input);
        let mut fields = Vec::new();
        let mut mistakes = Mistakes::default();
        list::each(&content, &mut mistakes, |input| {
            fields.push(FieldPath::parse(input)?);
            Ok(())
        });
        mistakes.into_result()?;
        if fields.is_empty() {
            return Err(Error::new(brackets.span.join(), CURE));
        }
        return Ok(Fingerprint::Fields(fields));
    }
    match word(input) {
        Ok(word) if word == "off" => Ok(Fingerprint::Off),
        Ok(word) => Err(Error::new_spanned(word.to_token_stream(), CURE)),
        Err(error) => Err(Error::new(error.span(), CURE)),
    }
}

#[cfg(test)]
mod tests {
    use idem_core::Policy;

    use super::*;

    #[test]
    fn the_largest_outcome_is_that_of_the_core() {
        assert_eq!(LARGER_OUTCOME, Policy::LARGEST_OUTCOME + 1);
    }
}
