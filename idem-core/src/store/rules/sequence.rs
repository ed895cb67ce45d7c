//! The state machine of one sequence: the call, the sequence and the time in, what becomes of it out.
//!
//! A claim takes four steps, between which a store looks up what the next one asks for: [`enter`],
//! [`look`] if there is something to look at, [`Sequence::place`], and [`below`] for what lies
//! below the mark.

use std::{ops::Range, time::Duration};

use crate::store::rules::record::{self, Reason, Record, State, micros};
use crate::{
    handler::{Outcome, Refusal},
    message::SequencePlace,
    store::{Claim, ClaimRequest, OutOfPlace},
};

mod look;
#[cfg(test)]
mod tests;

pub(crate) use look::look;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) use look::{Looked, stands_still};

/// How many numbers the mark passes in one step at most.
const STEP: u64 = 1024;

/// A sequence is looked at again after this part of the retention, however few numbers have come:
/// before their records are forgotten the mark has passed them, or they are kept for longer.
const LOOKS_PER_RETENTION: i64 = 8;

/// Who is ahead asks again and again. After a pause of this length, or of half the time after which
/// gaps are skipped, what is missing may have had no chance to come.
const LONGEST_PAUSE: i64 = 2 * 60 * 1_000_000;

/// What a store keeps for one sequence. Times are microseconds of the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Sequence {
    /// The number that it began with. From here on, all below the mark is done but for the
    /// exceptions; of what came before nobody knows.
    pub(crate) joined: u64,
    /// The lowest number that is not known to be done with.
    pub(crate) mark: u64,
    /// How many numbers from the mark on may have records.
    pub(crate) window: u32,
    /// Since when claims that would skip what is missing have been ahead, without a long pause and
    /// without the mark moving; 0 if none has.
    pub(crate) ahead_since: i64,
    /// When the last of them was.
    pub(crate) ahead_at: i64,
    /// When somebody has to look whether the mark can move, however few numbers have come.
    pub(crate) look_by: i64,
    pub(crate) expires_at: i64,
}

/// What a claim finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entered {
    /// Nothing is claimed, nothing is written.
    Ahead(OutOfPlace),
    /// There is no sequence, and this claim begins none: the ordinary rules decide about its key.
    Unknown,
    /// It is to be written, and what is left of an earlier one to be removed.
    Begun(Sequence),
    /// The standing of these numbers is to be looked up, if of any.
    Known(Sequence, Option<Range<u64>>),
}

/// How a number stands, by its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has none.
    Missing,
    /// In progress, or failed and to be tried again.
    Waiting,
    Completed,
    /// Nothing was done, and its requester is told so.
    Refused,
    /// Dead-lettered: nothing runs but a replay.
    GivenUp,
}

/// Where a number stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Too far above: nothing is claimed.
    Ahead(OutOfPlace),
    /// Inside the window, or before the sequence began: the ordinary rules decide about its key.
    Ordinary,
    /// [`below`] decides.
    Below,
}

/// What is decided about a number below the mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Below {
    Answered(Claim),
    /// The ordinary rules decide about its key.
    Claim,
}

/// The beginning of a store's call to claim.
pub(crate) fn enter(
    known: Option<&Sequence>,
    request: &ClaimRequest,
    place: &SequencePlace,
    now: i64,
) -> Entered {
    let known = known.filter(|sequence| now < sequence.expires_at);
    if place.number > SequencePlace::MAX_NUMBER {
        let mark = known.map_or(0, |sequence| sequence.mark);
        return Entered::Ahead(ahead(mark, window(place)));
    }
    match known {
        Some(sequence) => Entered::Known(*sequence, sequence.look(request, place, now)),
        // A replay comes days later, perhaps: the next number of the producer may be far ahead. And
        // what was delivered before may be a copy, with its neighbours done long ago.
        None if request.replay || !place.begins => Entered::Unknown,
        None => Entered::Begun(Sequence::begin(request, place, now)),
    }
}

/// What comes of a number below the mark, whose record is this one.
pub(crate) fn below(
    sequence: &Sequence,
    is_exception: bool,
    record: Option<&Record>,
    request: &ClaimRequest,
    now: i64,
) -> Below {
    match Standing::of(record, now) {
        // Answered here, because its retention may end before the ordinary claim comes to it.
        Standing::Completed | Standing::Refused => {
            Below::Answered(record::claim(record, request, now, 0).answer)
        }
        Standing::Missing if !is_exception => Below::Answered(sequence.done(now)),
        Standing::Missing => late_unless_replayed(request),
        // What is quarantined says so itself.
        Standing::GivenUp if !is_quarantined(record) => late_unless_replayed(request),
        Standing::GivenUp | Standing::Waiting => Below::Claim,
    }
}

/// The answer to a number that is done, and whose outcome went with its record.
pub(crate) fn done(remaining: Duration) -> Claim {
    let message = "it was done, and what came of it is no longer kept: its sequence has moved on";
    Claim::Completed {
        outcome: Outcome::forgotten(&Refusal::new(Refusal::STALE, message)),
        remaining,
    }
}

impl Sequence {
    /// A sequence that is first seen with this number.
    fn begin(request: &ClaimRequest, place: &SequencePlace, now: i64) -> Self {
        Self {
            joined: place.number,
            mark: place.number,
            window: window(place),
            ahead_since: 0,
            ahead_at: 0,
            look_by: now.saturating_add(until_look(request)),
            expires_at: now.saturating_add(micros(request.retention)),
        }
    }

    /// Which numbers are to be looked at now: none of those that are claimed now or above, so that
    /// nobody removes the answer that he asks for. A number below the mark is no sign that its
    /// producer goes on.
    fn look(&self, request: &ClaimRequest, place: &SequencePlace, now: i64) -> Option<Range<u64>> {
        let window = u64::from(window(place));
        let half = self.mark.saturating_add(window / 2);
        let looks = place.number >= half || place.number >= self.mark && self.is_due(request, now);
        let end = self.mark.saturating_add(window.min(STEP));
        looks.then(|| self.mark..end.min(place.number))
    }

    /// Also if the retention is shorter now, or the clock has stepped back.
    fn is_due(&self, request: &ClaimRequest, now: i64) -> bool {
        self.look_by <= now || now.saturating_add(until_look(request)) < self.look_by
    }

    pub(crate) fn place(&self, place: &SequencePlace) -> Placed {
        let window = window(place);
        if place.number < self.joined {
            Placed::Ordinary
        } else if place.number < self.mark {
            Placed::Below
        } else if place.number - self.mark < window.into() {
            Placed::Ordinary
        } else {
            Placed::Ahead(ahead(self.mark, window))
        }
    }

    fn done(&self, now: i64) -> Claim {
        let remaining = u64::try_from(self.expires_at.saturating_sub(now)).unwrap_or(0);
        done(Duration::from_micros(remaining))
    }
}

impl Standing {
    pub(crate) fn of(record: Option<&Record>, now: i64) -> Self {
        let Some(record) = record.filter(|record| !record.is_forgotten(now)) else {
            return Self::Missing;
        };
        match &record.state {
            State::Completed { outcome } if outcome.rejection().is_some() => Self::Refused,
            State::Completed { .. } => Self::Completed,
            State::Failed { reason, .. } => Self::of_failed(*reason),
            State::InProgress { .. } => Self::Waiting,
        }
    }

    /// From the columns of a table. What this program does not know is waited for.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn read(
        (state, reason): (&str, Option<&str>),
        refused: bool,
        forget_at: i64,
        now: i64,
    ) -> Self {
        match (state, reason.map(Reason::read)) {
            _ if forget_at <= now => Self::Missing,
            ("completed", _) if refused => Self::Refused,
            ("completed", _) => Self::Completed,
            ("failed", Some(Ok(reason))) => Self::of_failed(reason),
            _ => Self::Waiting,
        }
    }

    fn of_failed(reason: Reason) -> Self {
        match reason {
            Reason::GaveUp | Reason::Quarantined => Self::GivenUp,
            Reason::Failed | Reason::Abandoned => Self::Waiting,
        }
    }
}

/// As it was given, within its limits.
pub(crate) fn window(place: &SequencePlace) -> u32 {
    place.window.clamp(1, SequencePlace::MAX_WINDOW)
}

/// Between two looks.
fn until_look(request: &ClaimRequest) -> i64 {
    micros(request.retention) / LOOKS_PER_RETENTION
}

fn ahead(mark: u64, window: u32) -> OutOfPlace {
    OutOfPlace::Ahead { mark, window }
}

fn late_unless_replayed(request: &ClaimRequest) -> Below {
    if request.replay {
        Below::Claim
    } else {
        Below::Answered(OutOfPlace::Late.into())
    }
}

fn is_quarantined(record: Option<&Record>) -> bool {
    let quarantined = |state: &State| {
        matches!(
            state,
            State::Failed {
                reason: Reason::Quarantined,
                ..
            }
        )
    };
    record.is_some_and(|record| quarantined(&record.state))
}
