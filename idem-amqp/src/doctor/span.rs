//! Durations, for people.

use std::{fmt, time::Duration};

/// `72 h`, `90 s`, `1500 ms`: the largest unit that divides it.
pub(super) struct Span(pub(super) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u128, &str); 3] = [(3_600_000, "h"), (60_000, "min"), (1_000, "s")];
        let milliseconds = self.0.as_millis();
        let divides =
            |unit: &&(u128, &str)| milliseconds >= unit.0 && milliseconds.is_multiple_of(unit.0);
        let (length, name) = UNITS.iter().find(divides).unwrap_or(&(1, "ms"));
        write!(f, "{} {name}", milliseconds / length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_told_in_the_largest_unit_that_divides_it() {
        let table = [
            (0, "0 ms"),
            (1_500, "1500 ms"),
            (90_000, "90 s"),
            (300_000, "5 min"),
            (259_200_000, "72 h"),
        ];
        for (milliseconds, expected) in table {
            let span = Span(Duration::from_millis(milliseconds));
            assert_eq!(span.to_string(), expected);
        }
    }
}
