//! Spans of time, as people write and read them.

use std::time::Duration;

const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];

/// Reads `90s`, `5m`, `1h` or `2d`, or several of these in a row: `1h30m`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no span of time: write 30s, 5m, 1h, 2d or 1h30m");
    let mut seconds = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, behind) = rest.split_at(end);
        let unit = UNITS.iter().find(|(unit, _)| behind.starts_with(unit));
        let (unit, factor) = unit.ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let more = number.checked_mul(*factor).ok_or_else(wrong)?;
        seconds = seconds.checked_add(more).ok_or_else(wrong)?;
        rest = &behind[unit.len()..];
    }
    if text.is_empty() {
        return Err(wrong());
    }
    Ok(Duration::from_secs(seconds))
}

/// The two greatest units: `2d 3h`, `5m`, `12s`; less than a second is `0s`.
pub(crate) fn words(span: Duration) -> String {
    let seconds = span.as_secs();
    let first = UNITS.iter().position(|(_, unit)| seconds >= *unit);
    let Some(first) = first else {
        return "0s".into();
    };
    let (unit, factor) = UNITS[first];
    let greatest = format!("{}{unit}", seconds / factor);
    match UNITS.get(first + 1) {
        Some((next, least)) if seconds % factor >= *least => {
            format!("{greatest} {}{next}", seconds % factor / least)
        }
        _ => greatest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_with_their_units() {
        for (text, seconds) in [
            ("30s", 30),
            ("5m", 300),
            ("1h", 3600),
            ("2d", 172_800),
            ("1h30m", 5400),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in [
            "",
            "5",
            "h",
            "1w",
            "-1s",
            "1.5h",
            "1 h",
            "99999999999999999999s",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.ends_with("write 30s, 5m, 1h, 2d or 1h30m"), "{error}");
        }
    }

    #[test]
    fn spans_are_written_in_two_units() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (61, "1m 1s"),
            (3605, "1h"),
            (90_061, "1d 1h"),
        ] {
            assert_eq!(words(Duration::from_secs(seconds)), text);
        }
    }
}
