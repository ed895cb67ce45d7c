//! How many letters became what.

use std::fmt;

use super::LetterOutcome;

/// How many letters were seen, and what became of them: `seen` is the sum of the others.
///
/// ```
/// use std::process::ExitCode;
/// use idem_amqp::dead_letters::DeadLetterStats;
///
/// fn report(stats: &DeadLetterStats) -> ExitCode {
///     println!("{stats}");
///     if stats.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
/// }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetterStats {
    /// Letters that were looked at.
    pub seen: u64,
    /// Letters that were sent again.
    pub replayed: u64,
    /// Letters that were dropped for good.
    pub discarded: u64,
    /// Letters that were chosen, could not be sent again, and stay where they are.
    pub failed: u64,
    /// Letters that were not chosen, or only looked at.
    pub left: u64,
}

impl DeadLetterStats {
    pub(super) fn count(&mut self, outcome: &LetterOutcome) {
        *match outcome {
            LetterOutcome::Replayed => &mut self.replayed,
            LetterOutcome::Discarded => &mut self.discarded,
            LetterOutcome::Failed(_) => &mut self.failed,
        } += 1;
        self.left -= 1;
    }

    /// Letters that were looked at, and are left until they are dealt with.
    pub(super) fn see(&mut self, letters: usize) {
        self.seen += letters as u64;
        self.left += letters as u64;
    }
}

impl fmt::Display for DeadLetterStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seen,
            replayed,
            discarded,
            failed,
            left,
        } = self;
        write!(
            f,
            "seen={seen} replayed={replayed} discarded={discarded} failed={failed} left={left}"
        )
    }
}
