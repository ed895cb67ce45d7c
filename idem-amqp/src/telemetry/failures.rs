//! Tells the log of each attempt that failed, and of each message that is not handled: a line each, but no more lines
//! than can be read. Nobody should have to read dead letters to learn that there are some.

use std::{
    mem,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use idem_core::{ExecutionKind, Key};

use crate::wire::settlement::Settlement;

/// So many lines of one queue in a second. The next line says how many were left out.
const LINES: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);

/// What of one queue is told to the log.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<Lines>);

/// How an attempt, or a message, ending.
#[derive(Debug)]
pub(crate) struct Ending<'a> {
    pub(crate) queue: &'a str,
    pub(crate) key: Option<&'a Key>,
    pub(crate) kind: ExecutionKind,
    pub(crate) attempt: Option<u32>,
    pub(crate) error: Option<&'a str>,
    pub(crate) settlement: Settlement,
}

#[derive(Debug, Default)]
struct Lines {
    since: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl FailureLog {
    /// Writes a line if this is a failure, and there is room for one.
    pub(crate) fn tell(&self, ending: &Ending<'_>) {
        let Some(what) = what(ending.kind, ending.settlement) else {
            return;
        };
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left_out = lines.next(Instant::now());
        drop(lines);
        let Some(left_out) = left_out else {
            return;
        };
        let (next, after) = next(ending.settlement);
        tracing::warn!(
            queue = ending.queue,
            key = ending.key.map(tracing::field::display),
            attempt = ending.attempt,
            error = ending.error,
            after = after.map(tracing::field::debug),
            left_out = (left_out > 0).then_some(left_out),
            "{what}: {next}"
        );
    }
}

impl Lines {
    /// How many lines were left out before this one, if it may be written.
    fn next(&mut self, now: Instant) -> Option<u64> {
        let is_over = |since| now.duration_since(since) >= SECOND;
        if self.since.is_none_or(is_over) {
            self.since = Some(now);
            self.written = 0;
        }
        if self.written == LINES {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(mem::take(&mut self.left_out))
    }
}

/// What has happened, if it is worth a line.
fn what(kind: ExecutionKind, settlement: Settlement) -> Option<&'static str> {
    use ExecutionKind as Kind;
    Some(match kind {
        Kind::Failed => "an attempt failed",
        Kind::LeaseLost => "another worker took the key over while the handler ran",
        Kind::Rejected => "the handler rejected a message",
        Kind::Exhausted => "the last attempt failed",
        Kind::Undecodable => "a message cannot be decoded",
        Kind::Keyless => "a message has no usable key",
        Kind::KeyReused => "a key came again with other content",
        Kind::InDoubt => "an earlier attempt ended without a word",
        _ if matches!(settlement, Settlement::DeadLetter(_)) => "a message cannot be handled",
        _ => return None,
    })
}

/// What becomes of the message, and after how long.
fn next(settlement: Settlement) -> (&'static str, Option<Duration>) {
    match settlement {
        Settlement::Ack => ("it is done with", None),
        Settlement::DeadLetter(_) => ("it goes to the dead-letter queue", None),
        Settlement::Retry { after } => ("it comes again from the retry ladder", Some(after)),
        Settlement::Requeue { after } => ("it goes back to its queue", Some(after)),
        Settlement::Hold { recheck } => ("it is tried again here", Some(recheck)),
        Settlement::Leave => ("the broker delivers it again", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_lines_are_written_in_a_second_than_can_be_read_and_the_next_counts_the_others() {
        let (mut lines, begin) = (Lines::default(), Instant::now());
        let mut written = |after: Duration| lines.next(begin + after);
        for _ in 0..LINES {
            assert_eq!(written(Duration::ZERO), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(written(SECOND / 2), None);
        }
        assert_eq!(written(SECOND), Some(7));
        assert_eq!(written(SECOND), Some(0));
    }

    #[test]
    fn what_went_well_is_worth_no_line() {
        for kind in [ExecutionKind::Executed, ExecutionKind::Duplicate] {
            assert_eq!(what(kind, Settlement::Ack), None);
        }
        let hold = Settlement::Hold { recheck: SECOND };
        assert_eq!(what(ExecutionKind::Conflict, hold), None);
    }
}
