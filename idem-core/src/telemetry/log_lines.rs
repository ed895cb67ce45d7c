//! How many lines of a kind a log gets: no more than can be read.

use std::{
    mem,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// At most so many lines in a second. The next line says how many were left out.
const LINES: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);

/// The lines of one source of them.
#[derive(Debug, Default)]
pub struct LogLines(Mutex<Second>);

#[derive(Debug, Default)]
struct Second {
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl LogLines {
    /// How many lines were left out before this one, if it may be written.
    pub fn next(&self, now: Instant) -> Option<u64> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |since| now.duration_since(since) >= SECOND;
        if written.since.is_none_or(is_over) {
            written.since = Some(now);
            written.lines = 0;
        }
        if written.lines == LINES {
            written.left_out += 1;
            return None;
        }
        written.lines += 1;
        Some(mem::take(&mut written.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_lines_are_written_in_a_second_than_can_be_read_and_the_next_counts_the_others() {
        let (lines, begin) = (LogLines::default(), Instant::now());
        let written = |after: Duration| lines.next(begin + after);
        for _ in 0..LINES {
            assert_eq!(written(Duration::ZERO), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(written(SECOND / 2), None);
        }
        assert_eq!(written(SECOND), Some(7));
        assert_eq!(written(SECOND), Some(0));
    }
}
