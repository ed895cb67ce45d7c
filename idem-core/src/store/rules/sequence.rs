//! The state machine of one sequence. A sequence is the numbered messages of one producer.
//!
//! The functions are pure: the call, the sequence and the time go in, and what becomes of the
//! sequence comes out. Stores that decide in Rust (memory, SQLite, PostgreSQL) call them while
//! nobody else can change the sequence: under the lock of its row, or as the only writer.
//!
//! A claim takes four steps, between which a store looks up what the next one asks for: [`enter`],
//! [`look`] if there is something to look at, [`Sequence::place`], and [`below`] for what lies
//! below the mark.
//!
//! What must stay true:
//!
//! - A number below the mark is done, unless it is listed as an exception.
//! - The mark never passes a number that may still run, nor the number that is claimed.
//! - The record of a number that is done is not forgotten before the mark has passed that number.
// docs/decisions/0019

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

/// How many numbers one look covers at most. It bounds how long a claim can take, and how many
/// records it reads.
const STEP: u64 = 1024;

/// A sequence is looked at again after this part of the retention, however few numbers have come.
/// So the mark passes a record before that is forgotten, or the look has it kept for longer.
const LOOKS_PER_RETENTION: i64 = 8;

/// The longest time between two claims that are ahead for which they count as one wait, in
/// microseconds.
///
/// Whoever is ahead asks again and again. If nobody has asked for this long, or for half of the
/// time after which gaps are skipped, all workers may have been away. Then what is missing may have
/// had no chance to come, and the wait begins anew.
const LONGEST_PAUSE: i64 = 2 * 60 * 1_000_000;

/// What a store keeps for one sequence. Times are microseconds of the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Sequence {
    /// The number that the sequence began with. From here on, all below the mark is done, but for
    /// the exceptions. Nobody knows what became of lower numbers, so each of them is decided by a
    /// record of its own.
    pub(crate) joined: u64,
    /// The lowest number that is not known to be done or given up.
    pub(crate) mark: u64,
    /// How many numbers from the mark on may have records: what the claim of the last look asked
    /// for, or more for a while if one before it asked for more.
    pub(crate) window: u32,
    /// Since when claims have been ahead that would skip what is missing, without a long pause and
    /// without the mark moving; 0 if none has.
    pub(crate) ahead_since: i64,
    /// When the last of those claims was; 0 if there was none.
    pub(crate) ahead_at: i64,
    /// The time from which the next claim from the mark on has to look whether the mark can move.
    pub(crate) look_by: i64,
    /// The time from which the sequence counts as unknown and may begin anew.
    pub(crate) expires_at: i64,
}

/// What [`enter`] finds: what a store does first about a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entered {
    /// The number is too great for any sequence: nothing is claimed, nothing is written.
    Ahead(OutOfPlace),
    /// There is no sequence, and this claim begins none: the ordinary rules decide about its key.
    Unknown,
    /// The sequence begins with this claim. The store writes it, and removes the exceptions that an
    /// expired one of the same name has left: they would make numbers of this one late.
    Begun(Sequence),
    /// The sequence is known. If there are numbers, the store looks up their standings for
    /// [`look`].
    Known(Sequence, Option<Range<u64>>),
}

/// How a number stands, by its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has no record, or one whose retention has ended.
    Missing,
    /// The number is in progress, or has failed and is to be tried again: it may still run, so the mark waits for it.
    Waiting,
    /// A handler has finished it.
    Completed,
    /// Completed with a rejection: nothing was done, and whoever asked for a reply was told so.
    Refused,
    /// Failed for good, its attempts used up, or quarantined: nothing runs but a replay.
    GivenUp,
}

/// Where a number stands, by the sequence alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Above the window: nothing is claimed, and the message waits.
    Ahead(OutOfPlace),
    /// Inside the window, or before the sequence began: the ordinary rules decide about its key.
    Ordinary,
    /// Below the mark: the store looks up its record and whether it is an exception, and asks
    /// [`below`].
    Below,
}

/// What [`below`] decides about a number below the mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Below {
    /// This is the answer: nothing is claimed, nothing is written.
    Answered(Claim),
    /// The ordinary rules decide about its key.
    Claim,
}

/// The first step of a claim: whether there is a sequence, and what has to be looked up in it.
pub(crate) fn enter(
    known: Option<&Sequence>,
    request: &ClaimRequest,
    place: &SequencePlace,
    now: i64,
) -> Entered {
    // An expired sequence counts as none. Its exceptions may be removed already, and without them a
    // number that was given up would be taken for done.
    let known = known.filter(|sequence| now < sequence.expires_at);
    // Checked first, so that no such number is ever stored: not every store could hold it exactly.
    if place.number > SequencePlace::MAX_NUMBER {
        let mark = known.map_or(0, |sequence| sequence.mark);
        return Entered::Ahead(ahead(mark, window(place)));
    }
    match known {
        Some(sequence) => Entered::Known(*sequence, sequence.look(request, place, now)),
        // A replay may come days later, when the producer's next number is far ahead. A message
        // that was delivered before may be a copy whose neighbours were done long ago. A sequence
        // that began with either would wait for numbers that nobody will send.
        None if request.replay || !place.begins => Entered::Unknown,
        None => Entered::Begun(Sequence::begin(request, place, now)),
    }
}

/// The last step for a number below the mark: decides by its record, if there is one, and by
/// whether the number is listed as an exception.
pub(crate) fn below(
    sequence: &Sequence,
    is_exception: bool,
    record: Option<&Record>,
    request: &ClaimRequest,
    now: i64,
) -> Below {
    match Standing::of(record, now) {
        // Answered from this record. If the ordinary claim asked again a moment later, the record's
        // retention might have ended, and the claim would run again what is done. No token is given
        // out here, so the floor does not matter.
        Standing::Completed | Standing::Refused => {
            Below::Answered(record::claim(record, request, now, 0).answer)
        }
        // The mark passes only what is done or becomes an exception. So a number without either was
        // done, and its record was removed.
        Standing::Missing if !is_exception => Below::Answered(sequence.done(now)),
        // It was given up, or skipped as missing; the list does not say which. A copy of a number
        // that was given up must not run unless a person sends it again.
        Standing::Missing => late_unless_replayed(request),
        // A quarantined record has an answer of its own, and the ordinary rules give it.
        Standing::GivenUp if !is_quarantined(record) => late_unless_replayed(request),
        // A replay of an exception may be in progress, or have failed and wait for its next
        // attempt.
        Standing::GivenUp | Standing::Waiting => Below::Claim,
    }
}

/// The answer to a number that is done, but whose outcome is no longer kept: it was removed with
/// the record. `remaining` is how long the sequence will still be known.
pub(crate) fn done(remaining: Duration) -> Claim {
    let message = "it was done, and what came of it is no longer kept: its sequence has moved on";
    Claim::Completed {
        outcome: Outcome::forgotten(&Refusal::new(Refusal::STALE, message)),
        remaining,
    }
}

impl Sequence {
    /// A sequence that is first seen with this number. Nothing below it is taken for done, and
    /// nothing is waited for.
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

    /// Which numbers this claim has to look at, from the mark on; `None` if the mark need not move
    /// now.
    ///
    /// Looks are seldom, because each costs statements: when half a window has come, or when an
    /// eighth of the retention has passed.
    fn look(&self, request: &ClaimRequest, place: &SequencePlace, now: i64) -> Option<Range<u64>> {
        let window = u64::from(window(place));
        let half = self.mark.saturating_add(window / 2);
        // A number below the mark is a copy, and no sign that its producer goes on. If it counted,
        // a producer that counts anew without an epoch would keep its old sequence alive for ever.
        let looks = place.number >= half || place.number >= self.mark && self.is_due(request, now);
        let end = self.mark.saturating_add(window.min(STEP));
        // The range ends before the claimed number. If the mark passed that one, its record would
        // be removed, and with it the answer that this claim asks for.
        looks.then(|| self.mark..end.min(place.number))
    }

    /// Whether the time for a look has come. The second condition holds if the retention is shorter
    /// than at the last look, or if the clock has stepped back. To wait for `look_by` would be too
    /// long then: records would be forgotten before the mark has passed them.
    fn is_due(&self, request: &ClaimRequest, now: i64) -> bool {
        self.look_by <= now || now.saturating_add(until_look(request)) < self.look_by
    }

    /// Where a number stands in the sequence, once the mark has moved.
    pub(crate) fn place(&self, place: &SequencePlace) -> Placed {
        let window = window(place);
        // Before the test against the mark: below `joined` a missing record does not mean "done".
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

    /// The answer to a number that is done and has no record any more.
    fn done(&self, now: i64) -> Claim {
        let remaining = u64::try_from(self.expires_at.saturating_sub(now)).unwrap_or(0);
        done(Duration::from_micros(remaining))
    }
}

impl Standing {
    /// How a number stands whose record this is.
    pub(crate) fn of(record: Option<&Record>, now: i64) -> Self {
        // A forgotten record may be removed at any moment. To count it would make the answer depend
        // on the purge.
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

    /// How a number stands that has failed for this reason.
    fn of_failed(reason: Reason) -> Self {
        match reason {
            Reason::GaveUp | Reason::Quarantined => Self::GivenUp,
            Reason::Failed | Reason::Abandoned => Self::Waiting,
        }
    }
}

/// The window that the claim asks for, cut to its limits. A window of 0 would let no number in.
pub(crate) fn window(place: &SequencePlace) -> u32 {
    place.window.clamp(1, SequencePlace::MAX_WINDOW)
}

/// The time between two looks, in microseconds.
fn until_look(request: &ClaimRequest) -> i64 {
    micros(request.retention) / LOOKS_PER_RETENTION
}

/// The answer to a number above the window. It tells the mark, so that the worker can say what is
/// missing.
fn ahead(mark: u64, window: u32) -> OutOfPlace {
    OutOfPlace::Ahead { mark, window }
}

/// The answer to an exception: only a replay, which a person has sent, runs it.
fn late_unless_replayed(request: &ClaimRequest) -> Below {
    if request.replay {
        Below::Claim
    } else {
        Below::Answered(OutOfPlace::Late.into())
    }
}

/// Whether the record was quarantined, because its attempt ended in doubt.
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
