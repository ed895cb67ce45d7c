//! Durations as the server can add them to a time.

use std::time::Duration;

/// What `timestamptz` can hold several of: 10,000 years.
pub(super) const LONGEST: i64 = 10_000 * 366 * 24 * 3600 * 1_000_000;

/// Microseconds, at most ten thousand years of them.
pub(super) fn micros(duration: Duration) -> i64 {
    crate::store::rules::record::micros(duration).min(LONGEST)
}
