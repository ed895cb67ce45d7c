//! How many lines of a kind a log gets: no more than can be read.

use std::{
    mem,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The lines of one source of them: no more than so many in a period. The next line says how many were left out.
#[derive(Debug)]
pub struct LogLines {
    most: u32,
    period: Duration,
    written: Mutex<Written>,
}

#[derive(Debug, Default)]
struct Written {
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

/// Ten lines in a second.
impl Default for LogLines {
    fn default() -> Self {
        Self::at_most(10, Duration::from_secs(1))
    }
}

impl LogLines {
    /// At most so many lines in a period of this length.
    pub fn at_most(lines: u32, period: Duration) -> Self {
        Self {
            most: lines,
            period,
            written: Mutex::default(),
        }
    }

    /// For what lasts: one line in a minute.
    pub fn of_an_outage() -> Self {
        Self::at_most(1, Duration::from_mins(1))
    }

    /// How many lines were left out before this one, if it may be written.
    pub fn next(&self, now: Instant) -> Option<u64> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |since| now.duration_since(since) >= self.period;
        if written.since.is_none_or(is_over) {
            written.since = Some(now);
            written.lines = 0;
        }
        if written.lines == self.most {
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
        const SECOND: Duration = Duration::from_secs(1);
        let (lines, begin) = (LogLines::default(), Instant::now());
        let written = |after: Duration| lines.next(begin + after);
        for _ in 0..10 {
            assert_eq!(written(Duration::ZERO), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(written(SECOND / 2), None);
        }
        assert_eq!(written(SECOND), Some(7));
        assert_eq!(written(SECOND), Some(0));
    }
}
