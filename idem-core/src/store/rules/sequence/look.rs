//! How far the mark can move: the second step of a claim in a sequence, as a pure function.
//!
//! `Sequence::look` decides which numbers are looked at, a store reads how they stand, and [`look`] says what to write.
//! What must stay true:
//!
//! - The mark stops at a number that may still run, and passes a missing one only when it was waited for as long as the
//!   handler asks.
//! - Whatever it passes is either seen done or noted as an exception, in the same step.

use std::ops::Range;

use super::{LONGEST_PAUSE, STEP, Sequence, Standing, micros, until_look, window};
use crate::{message::SequencePlace, store::ClaimRequest};

/// What a look at the numbers from the mark on comes to. The store writes all of it in one
/// transaction: a mark without its exceptions would call numbers done that are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Looked {
    /// The sequence to write, with the mark where it is now.
    pub(crate) sequence: Sequence,
    /// The numbers that the mark has passed as done: their records are to be removed.
    pub(crate) removed: Vec<u64>,
    /// The numbers that the mark has passed though they are not done: they are to be listed.
    pub(crate) exceptions: Vec<u64>,
    /// If it is time for that: the numbers whose records are to be kept as long as the sequence.
    /// Left out are those that are in progress, or failed and to be tried again.
    pub(crate) kept: Option<Range<u64>>,
}

/// Moves the mark as far as the standings let it.
///
/// The standings are those of the numbers from the mark on, in their order. One is enough to begin
/// with, if [`stands_still`] says so: the rest is then not read at all.
pub(crate) fn look(
    sequence: &Sequence,
    standings: &[Standing],
    request: &ClaimRequest,
    place: &SequencePlace,
    now: i64,
) -> Looked {
    let mut walk = Walk::new(sequence, standings, place);
    walk.pass();
    // A mark that moves shows that the producer's messages still come. The time for the next gap
    // starts from zero.
    if walk.mark() > sequence.mark {
        walk.looked.sequence.wait_anew();
    // Only if the mark could not move by itself. `may_skip` also notes that somebody is ahead, so
    // it is asked exactly once for each look.
    } else if walk.may_skip(place, now) {
        walk.looked.sequence.wait_anew();
        walk.skip();
    }
    walk.keep(request, place, now);
    walk.looked
}

/// Whether the mark stays where it is if the number at the mark stands so. A store reads that one
/// number first, because a mark that is stuck is stuck at the first number, and the rest is then
/// not worth a statement.
#[cfg_attr(
    not(any(test, feature = "sqlite", feature = "postgres")),
    expect(
        dead_code,
        reason = "whoever has the records at hand looks at all of them"
    )
)]
pub(crate) fn stands_still(
    sequence: &Sequence,
    standing: Standing,
    request: &ClaimRequest,
    place: &SequencePlace,
    now: i64,
) -> bool {
    look(sequence, &[standing], request, place, now)
        .sequence
        .mark
        == sequence.mark
}

/// A look while it goes on.
struct Walk<'a> {
    /// How the numbers from `began_at` on stand, as far as they were read.
    standings: &'a [Standing],
    /// The number of the first standing: where the mark was before the look.
    began_at: u64,
    /// What has come of the look so far; its sequence has the mark as it moves.
    looked: Looked,
}

impl<'a> Walk<'a> {
    /// Begins at the mark of the sequence.
    fn new(sequence: &Sequence, standings: &'a [Standing], place: &SequencePlace) -> Self {
        Self {
            standings,
            began_at: sequence.mark,
            looked: Looked {
                sequence: Sequence {
                    window: window(place).max(sequence.window),
                    ..*sequence
                },
                removed: Vec::new(),
                exceptions: Vec::new(),
                kept: None,
            },
        }
    }

    /// The mark as it is now.
    fn mark(&self) -> u64 {
        self.looked.sequence.mark
    }

    /// How the number at the mark stands; `None` behind the last one that was read, where the look
    /// ends.
    fn standing(&self) -> Option<Standing> {
        let at = usize::try_from(self.mark() - self.began_at).ok()?;
        self.standings.get(at).copied()
    }

    /// Passes what is done or given up, up to the first number that is neither.
    fn pass(&mut self) {
        while let Some(standing) = self.standing() {
            let mark = self.mark();
            match standing {
                // From now on the mark says that it is done, so its record can go.
                Standing::Completed => self.looked.removed.push(mark),
                // It was not done. Without an exception, a replay of its dead letter would be taken
                // for a duplicate and lost.
                Standing::GivenUp | Standing::Refused => self.looked.exceptions.push(mark),
                // It may still run. If the mark passed it, its message would be taken for done and
                // lost.
                Standing::Missing | Standing::Waiting => return,
            }
            self.looked.sequence.mark += 1;
        }
    }

    /// Passes the missing numbers below the highest one that has a record; or all that were read,
    /// if none has one. Stops at a number that may still run.
    fn skip(&mut self) {
        let came = |standing: &Standing| *standing != Standing::Missing;
        // A number above the highest that has come may only be on its way behind it: the producer
        // has perhaps just published it. A number below was overtaken.
        let last = self.standings.iter().rposition(came);
        let end = self.began_at + last.unwrap_or(self.standings.len()) as u64;
        // Each skipped number becomes an exception. If its message comes after all, it is late and
        // dead-lettered, instead of being acknowledged as a duplicate.
        while self.mark() < end && self.standing() == Some(Standing::Missing) {
            self.looked.exceptions.push(self.mark());
            self.looked.sequence.mark += 1;
            self.pass();
        }
    }

    /// Whether what is missing was waited for long enough, by claims that are ahead. Also notes
    /// that this claim is ahead, if it is one that would skip.
    fn may_skip(&mut self, place: &SequencePlace, now: i64) -> bool {
        let is_missing = self.standing() == Some(Standing::Missing);
        let sequence = &mut self.looked.sequence;
        let ahead_from = sequence.mark.saturating_add(window(place).into());
        // Only a claim that is ahead is kept waiting by the gap. Others run, so there is no hurry.
        let Some(patience) = place.skip_after.filter(|_| place.number >= ahead_from) else {
            return false;
        };
        let patience = micros(patience);
        let pause = LONGEST_PAUSE.min(patience / 2);
        // How long the mark has stood still says nothing: the workers may have been away, and what
        // is missing may just have been published. So only an unbroken wait counts. A clock that
        // steps back breaks it, too: the difference is negative.
        let goes_on = (0..pause).contains(&now.saturating_sub(sequence.ahead_at));
        if sequence.ahead_at == 0 || !goes_on {
            sequence.ahead_since = now;
        }
        sequence.ahead_at = now;
        // A number that is in progress or waits for its next attempt is never skipped.
        is_missing && patience <= now - sequence.ahead_since
    }

    /// Sets the window and, each eighth of the retention, how long sequence and records are kept.
    ///
    /// While records are kept for as long as their sequence, none in the window is forgotten that
    /// the mark has yet to pass. If one were, it would be a gap that nobody can fill, and its
    /// copies would run again. A number that is to be tried again is not kept: if its message never
    /// comes back, it counts as missing when its retention ends, and can be skipped.
    fn keep(&mut self, request: &ClaimRequest, place: &SequencePlace, now: i64) {
        let sequence = &mut self.looked.sequence;
        // If an earlier claim had a wider window, that one ends where it did: numbers up to there
        // may have records, which must be kept as well.
        let moved = u32::try_from(sequence.mark - self.began_at).unwrap_or(u32::MAX);
        sequence.window = window(place).max(sequence.window.saturating_sub(moved));
        if !sequence.is_due(request, now) {
            return;
        }
        // If the look ended at its limit and there is more to pass, `look_by` stays in the past:
        // the next claim looks again at once.
        let end = self.began_at.saturating_add(STEP);
        if sequence.mark < end || place.number <= end {
            sequence.look_by = now.saturating_add(until_look(request));
        }
        // The sequence and the records get the same end. If the sequence ended first, it would
        // begin anew while its records are still there; if a record did, see above.
        sequence.expires_at = now.saturating_add(micros(request.retention));
        let mark = sequence.mark;
        let end = mark.saturating_add(sequence.window.into());
        self.looked.kept = Some(mark..end.min(SequencePlace::MAX_NUMBER + 1));
    }
}

impl Sequence {
    /// Lets the next gap be waited for anew, because the mark moves.
    fn wait_anew(&mut self) {
        (self.ahead_since, self.ahead_at) = (0, 0);
    }
}
