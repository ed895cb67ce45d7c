//! What the numbers of a sequence can be. The rules are those of `idem_core::handler::SequenceOptions`, which checks
//! them again.

use std::time::Duration;

use syn::{Error, LitInt, Result, parse::ParseStream};

use crate::idempotent::duration::Written;

const WIDEST: u32 = 100_000;
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_hours(10 * 366 * 24);

pub(super) fn window(input: ParseStream<'_>) -> Result<LitInt> {
    const CURE: &str =
        "write how many numbers may be in use at once, from 1 to 100000, such as `window = 1000`";
    let (literal, number) = literal(input, CURE)?;
    match number {
        1..=WIDEST => Ok(literal),
        _ => Err(Error::new(literal.span(), CURE)),
    }
}

pub(super) fn skip_gaps_after(wait: Written) -> Result<Written> {
    if (SHORTEST_WAIT..=LONGEST_WAIT).contains(&wait.duration) {
        return Ok(wait);
    }
    Err(Error::new(
        wait.span,
        "a missing number is waited for at least `1s` and at most ten years: longer than a message may take on its way; leave `skip_gaps_after` out to wait for ever",
    ))
}

fn literal(input: ParseStream<'_>, cure: &str) -> Result<(LitInt, u32)> {
    let span = input.span();
    let literal: LitInt = input.parse().map_err(|_| Error::new(span, cure))?;
    let number = literal.base10_parse();
    let number = number.map_err(|_| Error::new(span, cure))?;
    Ok((literal, number))
}

#[cfg(test)]
mod tests {
    use idem_core::{__private as core, message::SequencePlace};

    use super::*;

    #[test]
    fn the_limits_are_those_of_the_core() {
        assert_eq!(WIDEST, SequencePlace::MAX_WINDOW);
        assert_eq!(SHORTEST_WAIT, core::SHORTEST_WAIT);
        assert_eq!(LONGEST_WAIT, core::LONGEST_WAIT);
    }
}
