//! How far the mark can move.

use std::ops::Range;

use super::{LONGEST_PAUSE, STEP, Sequence, Standing, micros, until_look, window};
use crate::{message::SequencePlace, store::ClaimRequest};

/// What a look at the numbers from the mark on comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Looked {
    pub(crate) sequence: Sequence,
    /// Whose records are to be removed: they are done, and below the mark.
    pub(crate) removed: Vec<u64>,
    /// What is below the mark and not done.
    pub(crate) exceptions: Vec<u64>,
    /// Whose records are to be kept as long as the sequence, if it is time for that: all but those that
    /// are in progress, or failed and to be tried again.
    pub(crate) kept: Option<Range<u64>>,
}

/// Moves the mark. The standings are those of the numbers from the mark on, in their order; one is
/// enough to begin with, if [`stands_still`] says so.
pub(crate) fn look(
    sequence: &Sequence,
    standings: &[Standing],
    request: &ClaimRequest,
    place: &SequencePlace,
    now: i64,
) -> Looked {
    let mut walk = Walk::new(sequence, standings, place);
    walk.pass();
    if walk.mark() > sequence.mark {
        walk.looked.sequence.is_moved();
    } else if walk.may_skip(place, now) {
        walk.looked.sequence.is_moved();
        walk.skip();
    }
    walk.keep(request, place, now);
    walk.looked
}

/// Whether the mark stays where it is if the number there stands so.
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

struct Walk<'a> {
    standings: &'a [Standing],
    /// Where the standings begin.
    began_at: u64,
    looked: Looked,
}

impl<'a> Walk<'a> {
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

    fn mark(&self) -> u64 {
        self.looked.sequence.mark
    }

    /// Of the number at the mark.
    fn standing(&self) -> Option<Standing> {
        let at = usize::try_from(self.mark() - self.began_at).ok()?;
        self.standings.get(at).copied()
    }

    /// Passes what is done with.
    fn pass(&mut self) {
        while let Some(standing) = self.standing() {
            let mark = self.mark();
            match standing {
                Standing::Completed => self.looked.removed.push(mark),
                Standing::GivenUp | Standing::Refused => self.looked.exceptions.push(mark),
                Standing::Missing | Standing::Waiting => return,
            }
            self.looked.sequence.mark += 1;
        }
    }

    /// Passes all that is missing, as far as others are known to have come; or all of the step, if
    /// none has.
    fn skip(&mut self) {
        let came = |standing: &Standing| *standing != Standing::Missing;
        let last = self.standings.iter().rposition(came);
        let end = self.began_at + last.unwrap_or(self.standings.len()) as u64;
        while self.mark() < end && self.standing() == Some(Standing::Missing) {
            self.looked.exceptions.push(self.mark());
            self.looked.sequence.mark += 1;
            self.pass();
        }
    }

    /// Whether what is missing has been waited for long enough, by claims that are ahead.
    fn may_skip(&mut self, place: &SequencePlace, now: i64) -> bool {
        let is_missing = self.standing() == Some(Standing::Missing);
        let sequence = &mut self.looked.sequence;
        let ahead_from = sequence.mark.saturating_add(window(place).into());
        let Some(patience) = place.skip_after.filter(|_| place.number >= ahead_from) else {
            return false;
        };
        let patience = micros(patience);
        let pause = LONGEST_PAUSE.min(patience / 2);
        let goes_on = (0..pause).contains(&now.saturating_sub(sequence.ahead_at));
        if sequence.ahead_at == 0 || !goes_on {
            sequence.ahead_since = now;
        }
        sequence.ahead_at = now;
        is_missing && patience <= now - sequence.ahead_since
    }

    /// While records are kept for as long as their sequence, none in the window is forgotten that
    /// the mark has yet to pass. What is to be tried again is not: if it never comes, it is
    /// missing when its retention ends.
    fn keep(&mut self, request: &ClaimRequest, place: &SequencePlace, now: i64) {
        let sequence = &mut self.looked.sequence;
        // A wider window of before ends where it did.
        let moved = u32::try_from(sequence.mark - self.began_at).unwrap_or(u32::MAX);
        sequence.window = window(place).max(sequence.window.saturating_sub(moved));
        if !sequence.is_due(request, now) {
            return;
        }
        // Another step follows at once if this one ended before its time.
        let end = self.began_at.saturating_add(STEP);
        if sequence.mark < end || place.number <= end {
            sequence.look_by = now.saturating_add(until_look(request));
        }
        sequence.expires_at = now.saturating_add(micros(request.retention));
        let mark = sequence.mark;
        let end = mark.saturating_add(sequence.window.into());
        self.looked.kept = Some(mark..end.min(SequencePlace::MAX_NUMBER + 1));
    }
}

impl Sequence {
    /// The next gap is waited for anew.
    fn is_moved(&mut self) {
        (self.ahead_since, self.ahead_at) = (0, 0);
    }
}
