//! How many letters became what.

use std::fmt;

use super::Fate;

/// How many letters were seen, and what became of them: `seen` is the sum of the others.
///
/// ```
/// use std::process::ExitCode;
/// use idem_amqp::Tally;
///
/// fn report(tally: &Tally) -> ExitCode {
///     println!("{tally}");
///     if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
/// }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Letters that were looked at.
    pub seen: u64,
    /// Those that were sent again.
    pub replayed: u64,
    /// Those that were dropped for good.
    pub discarded: u64,
    /// Those that were chosen, could not be sent again, and stay where they are.
    pub failed: u64,
    /// Those that were not chosen, or only looked at.
    pub left: u64,
}

impl Tally {
    pub(super) fn count(&mut self, fate: &Fate) {
        *match fate {
            Fate::Replayed => &mut self.replayed,
            Fate::Discarded => &mut self.discarded,
            Fate::Failed(_) => &mut self.failed,
        } += 1;
        self.left -= 1;
    }

    /// Letters that were looked at, and are left until they are dealt with.
    pub(super) fn see(&mut self, letters: usize) {
        self.seen += letters as u64;
        self.left += letters as u64;
    }
}

impl fmt::Display for Tally {
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
