//! Lengths of time as people write them: `"500ms"`, `"30s"`, `"1h 30m"`.

use std::time::Duration;

use proc_macro2::Span;
use syn::{Error, Lit, LitStr, Result, parse::ParseStream};

const UNITS: [(&str, u64); 6] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60 * 1000),
    ("min", 60 * 1000),
    ("h", 60 * 60 * 1000),
    ("d", 24 * 60 * 60 * 1000),
];

/// A length of time and where it was written.
#[derive(Clone, Copy)]
pub(super) struct Written {
    pub(super) duration: Duration,
    pub(super) span: Span,
}

/// Parses `name = "30s"`.
pub(super) fn parse(input: ParseStream<'_>, name: &str, example: &str) -> Result<Written> {
    let literal = literal(input, name, example)?;
    let span = literal.span();
    let duration = from_text(&literal.value()).ok_or_else(|| no_duration(&literal))?;
    Ok(Written { duration, span })
}

/// Parses `backoff = "1s..5m"`, or `"10s"` for waits that do not grow.
pub(super) fn parse_range(input: ParseStream<'_>) -> Result<(Written, Written)> {
    let literal = literal(input, "backoff", "1s..5m")?;
    let span = literal.span();
    let text = literal.value();
    let (first, longest) = text.split_once("..").unwrap_or((&text, &text));
    match (from_text(first), from_text(longest)) {
        (Some(first), Some(longest)) => Ok((
            Written {
                duration: first,
                span,
            },
            Written {
                duration: longest,
                span,
            },
        )),
        _ => Err(Error::new(
            span,
            "write the first and the longest wait, such as `\"1s..5m\"`",
        )),
    }
}

fn literal(input: ParseStream<'_>, name: &str, example: &str) -> Result<LitStr> {
    if let Ok(Lit::Int(number)) = input.fork().parse() {
        let number = number.base10_digits().to_owned();
        return Err(input.error(format!(
            "a number alone says no unit: write `\"{number}s\"`, `\"{number}m\"`, `\"{number}h\"` or `\"{number}d\"` \
             behind `{name} =`, for seconds, minutes, hours or days"
        )));
    }
    input
        .parse()
        .map_err(|error| Error::new(error.span(), format!("write `{name} = \"{example}\"`")))
}

fn no_duration(literal: &LitStr) -> Error {
    let text = literal.value();
    let message = format!(
        "`{text}` is not a duration: write a number and a unit, such as `500ms`, `30s`, `5m`, `72h`, `7d` or `1h 30m`"
    );
    Error::new(literal.span(), message)
}

/// One or more numbers, each with its unit.
fn from_text(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &rest[..letters])?;
        rest = rest[letters..].trim_start();
        total = total.checked_add(number.checked_mul(*unit)?)?;
    }
    (!text.trim().is_empty()).then(|| Duration::from_millis(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_durations() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("5min", 300_000),
            ("72h", 259_200_000),
            ("7d", 604_800_000),
            ("1h 30m", 5_400_000),
            (" 1h30m ", 5_400_000),
            ("2 s", 2_000),
            ("0s", 0),
        ] {
            assert_eq!(
                from_text(text),
                Some(Duration::from_millis(millis)),
                "{text}"
            );
        }
    }

    #[test]
    fn anything_else_is_not() {
        for text in [
            "",
            " ",
            "30",
            "s",
            "30x",
            "1.5s",
            "-1s",
            "30S",
            "1h,30m",
            "30s5",
            "1 000ms",
            "18446744073709551616ms",
            "300000000000d",
        ] {
            assert_eq!(from_text(text), None, "{text}");
        }
    }
}
