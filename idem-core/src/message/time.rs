//! When a message was made, as its publisher writes it.
//!
//! The envelope asks. What must stay true: what is no time is none, and never a time that is long past.

use std::time::{Duration, SystemTime};

/// Seconds up to the year 5138; a greater number counts milliseconds, from 1973 on.
const MOST_SECONDS: u64 = 100_000_000_000;

/// A number of seconds or milliseconds since 1970. 0 is what publishers write that have no time.
pub(super) fn of(number: u64) -> Option<SystemTime> {
    let since = match number {
        0 => return None,
        seconds if seconds < MOST_SECONDS => Duration::from_secs(seconds),
        millis => Duration::from_millis(millis),
    };
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// The same as text.
pub(super) fn read(text: &str) -> Option<SystemTime> {
    of(text.trim().parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_of_seconds_or_milliseconds() {
        let since = |millis| Some(SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
        let table = [
            ("1750000000", since(1_750_000_000_000)),
            (" 1750000000 ", since(1_750_000_000_000)),
            ("1750000000123", since(1_750_000_000_123)),
            ("1", since(1000)),
            ("0", None),
            ("-5", None),
            ("", None),
            ("yesterday", None),
            ("1750000000.5", None),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected, "{text:?}");
        }
        // Whatever it is, it is not long past.
        assert!(of(u64::MAX).is_none_or(|time| time > SystemTime::now()));
    }
}
