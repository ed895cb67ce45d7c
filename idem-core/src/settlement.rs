//! What a transport does with a message that ended: the table of the guarantees, as a function.
//!
//! A transport's worker asks `settle`, and carries out the [`Settlement`] that this says. What is to come back later
//! may wait on a [`Ladder`].
// All of it is pure: `tries` takes a message from try to try, `prefix` says how far all is done where messages have
// offsets, `lanes` which may start where some wait for each other, `stops` where all wait for one.

use std::time::Duration;

use crate::{
    executor::ExecutionKind,
    handler::{Backoff, GivenUp, OnConflict, OnDuplicate},
};

mod circumstances;
mod ladder;
mod lanes;
mod prefix;
mod stops;
mod stretches;
mod tries;

#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use circumstances::{
    Asker, Behind, Circumstances, Content, Counted, Delivered, Retries, Runner, Source,
};
pub use ladder::{Ladder, LadderError};
#[doc(hidden)]
pub use lanes::Lanes;
#[doc(hidden)]
pub use prefix::{Prefix, Saved};
#[doc(hidden)]
pub use stops::Stops;
#[doc(hidden)]
pub use stretches::{NextCall, Stretches, Waits};
#[doc(hidden)]
pub use tries::{Next, Room, Tried, Tries, is_conflict, may_wait};

/// What becomes of a delivery.
///
/// ```
/// use idem_core::settlement::{Reason, Settlement};
///
/// fn tell(settlement: Settlement) -> String {
///     match settlement {
///         Settlement::DeadLetter(reason) => format!("dead-lettered: {}", reason.as_str()),
///         Settlement::Retry { after } => format!("comes again in {after:?}"),
///         other => format!("{other:?}"),
///     }
/// }
/// assert_eq!(tell(Settlement::DeadLetter(Reason::Late)), "dead-lettered: late");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// The message is done with.
    Ack,
    /// It goes to the dead-letter queue, for this reason, and is then acknowledged.
    DeadLetter(Reason),
    /// It is acknowledged, though nothing was done and it is kept nowhere: its handler's policy says so.
    Drop(Reason),
    /// It is published to the rung of the retry ladder that returns it after this delay, and is
    /// then acknowledged.
    Retry {
        /// The rung's delay.
        after: Duration,
    },
    /// It goes back to its queue after a local delay.
    Requeue {
        /// How long it is kept before.
        after: Duration,
    },
    /// It is kept, unsettled, and claimed again after a while.
    Hold {
        /// How long until the next claim.
        recheck: Duration,
    },
    /// It cannot be handled, and stays where it is: nothing after it starts before it is handled.
    Stop {
        /// Why it cannot be handled.
        reason: Reason,
        /// How long until it is tried again.
        recheck: Duration,
    },
    /// It is left unsettled: the transport delivers it again.
    Leave,
}

/// What becomes of a message of a log (a stream, or a partition of a topic) that cannot be handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnFailure {
    /// It is dead-lettered, and those behind it go on.
    #[default]
    Park,
    /// The log stops there: nothing behind the message starts. The message is tried again each minute, until it is handled.
    ///
    /// Messages behind it may run already. Where none may, have them handled one after the other: a stream with a
    /// prefetch of 1, a topic by `Order::ByPartition`.
    Stop,
}

/// Why a message was dead-lettered (the header `idem-reason`), or dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The handler rejected it for good.
    Rejected,
    /// Its attempts are used up.
    Exhausted,
    /// The body, or a parameter of the handler, could not be made out.
    Undecodable,
    /// Its properties, or where it came from, cannot be read by the transport's client: what could not is replaced or
    /// left out.
    Unreadable,
    /// No route of its queue takes it.
    NoRoute,
    /// Its handler's `validate` rejected it.
    Invalid,
    /// It has no usable key.
    Keyless,
    /// Its key stands for other content.
    KeyReused,
    /// It is a copy of what is done, and its handler wants these to be seen.
    Duplicate,
    /// It is a copy of what is being handled, and its handler wants these not to wait.
    Conflict,
    /// An earlier attempt ended without a word.
    InDoubt,
    /// Its session's client no longer awaits its answer, and a person has sent it again.
    Stale,
    /// Its session is unknown or has ended, and nobody waits to be told.
    SessionExpired,
    /// Its number is beyond the window of its session, and nobody waits to be told.
    BeyondWindow,
    /// Its turn in its sequence has passed without it; or it is older than its key would be remembered, and its handler
    /// wants such messages to be seen (`late = "quarantine"`).
    Late,
}

impl Reason {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Rejected,
        Self::Exhausted,
        Self::Undecodable,
        Self::Unreadable,
        Self::NoRoute,
        Self::Invalid,
        Self::Keyless,
        Self::KeyReused,
        Self::Duplicate,
        Self::Conflict,
        Self::InDoubt,
        Self::Stale,
        Self::SessionExpired,
        Self::BeyondWindow,
        Self::Late,
    ];

    /// Its place in [`ALL`](Self::ALL).
    #[doc(hidden)]
    pub fn index(self) -> usize {
        let at = Self::ALL.iter().position(|other| *other == self);
        at.expect("ALL has every reason")
    }

    /// The header's value.
    // docs/decisions/0050
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Exhausted => "exhausted",
            Self::Undecodable => "undecodable",
            Self::Unreadable => "unreadable",
            Self::NoRoute => "no-route",
            Self::Invalid => "invalid",
            Self::Keyless => "keyless",
            Self::KeyReused => "key-reused",
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::InDoubt => "in-doubt",
            Self::Stale => "stale",
            Self::SessionExpired => "session-expired",
            Self::BeyondWindow => "beyond-window",
            Self::Late => "late",
        }
    }
}

/// How long a conflicting delivery is held before it goes to the ladder, or back to its queue. Well under the half hour
/// after which a broker takes back what is not settled.
#[doc(hidden)]
pub const LONGEST_HOLD: Duration = Duration::from_mins(1);

/// How long a failed delivery is kept for its next attempt, at most: half of that half hour.
#[doc(hidden)]
pub const LONGEST_DELAY: Duration = Duration::from_mins(15);

/// How long a number that is ahead waits on the ladder at a time, where there is such a rung: nobody
/// knows when the one that it waits for is done, and very many may come right after that.
const LONGEST_AHEAD: Duration = Duration::from_mins(1);

/// Between a lost lease, or a conflict that is not held, and the return to the queue: ever longer,
/// for most queues deliver what is returned at once.
const RETURN: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(8));

/// A number whose turn is near is woken; this is for numbers that end elsewhere.
const RECHECK_NEAR: Duration = Duration::from_secs(1);
/// The same of what keeps others out, which must not be for long.
const RECHECK_FULL: Duration = Duration::from_millis(200);

/// A copy elsewhere is at work for as long as a handler takes: for milliseconds, most often.
const RECHECK: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(5));
const RECHECK_AHEAD: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
const OUTAGE: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
/// A person has to mend the record, or a newer version of the program to read it.
const CORRUPT: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(1));

/// How long until a message that stops all after it is tried again. A person has to mend something first.
const STOPPED: Duration = Duration::from_mins(1);

/// The settlement of a message that ended this way.
#[doc(hidden)]
pub fn settle(kind: ExecutionKind, now: &Circumstances<'_>) -> Settlement {
    match settle_alone(kind, now) {
        Settlement::DeadLetter(reason) if now.on_failure == OnFailure::Stop => Settlement::Stop {
            reason,
            recheck: STOPPED,
        },
        settlement => settlement,
    }
}

/// The settlement if no message has to wait for this one.
fn settle_alone(kind: ExecutionKind, now: &Circumstances<'_>) -> Settlement {
    use ExecutionKind as Kind;
    match kind {
        // docs/decisions/0016
        // What is told is a rejection, also that of an earlier copy. A person sees it as a dead letter.
        Kind::Executed
        | Kind::Unprotected
        | Kind::Observed
        | Kind::Unclaimed
        | Kind::Duplicate
        | Kind::Refused
            if now.asker == Asker::NotTold =>
        {
            give_up(now.policy.on_rejected(), Reason::Rejected)
        }
        Kind::Duplicate if now.is_only_a_copy() => match now.policy.on_duplicate() {
            OnDuplicate::DeadLetter => Settlement::DeadLetter(Reason::Duplicate),
            _ => Settlement::Ack,
        },
        Kind::Executed
        | Kind::Unprotected
        | Kind::Observed
        | Kind::Unclaimed
        | Kind::Duplicate
        | Kind::Refused => Settlement::Ack,
        Kind::Stale if now.asker != Asker::Operator => Settlement::Ack,
        Kind::SessionExpired | Kind::BeyondWindow if now.asker == Asker::Requester => {
            Settlement::Ack
        }
        Kind::Stale => Settlement::DeadLetter(Reason::Stale),
        Kind::Ahead if now.near && now.held < LONGEST_HOLD => {
            let recheck = if now.full { RECHECK_FULL } else { RECHECK_NEAR };
            Settlement::Hold {
                recheck: jitter(recheck, now.random),
            }
        }
        Kind::Conflict if now.policy.on_conflict() == OnConflict::Requeue => step_back(kind, now),
        Kind::Conflict
            if now.policy.on_conflict() == OnConflict::DeadLetter && now.is_only_a_copy() =>
        {
            Settlement::DeadLetter(Reason::Conflict)
        }
        Kind::Conflict if now.policy.on_conflict() == OnConflict::Ack && now.is_only_a_copy() => {
            Settlement::Drop(Reason::Conflict)
        }
        Kind::Conflict | Kind::Ahead if now.full || now.held >= LONGEST_HOLD => {
            step_back(kind, now)
        }
        Kind::Conflict => Settlement::Hold {
            recheck: recheck(now),
        },
        Kind::Ahead => Settlement::Hold {
            recheck: wait(RECHECK_AHEAD, now.tries, now),
        },
        Kind::Failed => come_back(now.retry_after, now),
        // What comes after it must not begin before the mark is read anew.
        Kind::LeaseLost if now.behind == Behind::Mark => Settlement::Leave,
        Kind::LeaseLost => come_back(wait(RETURN, 1, now), now),
        Kind::StoreUnavailable => Settlement::Hold {
            recheck: wait(OUTAGE, now.tries, now),
        },
        Kind::RecordCorrupt => Settlement::Hold {
            recheck: wait(CORRUPT, now.tries, now),
        },
        // There is nothing to keep.
        Kind::Rejected if now.content == Content::Withdrawn => Settlement::Ack,
        Kind::Rejected => give_up(now.policy.on_rejected(), Reason::Rejected),
        Kind::Exhausted => give_up(now.policy.on_exhausted(), Reason::Exhausted),
        Kind::Undecodable if now.content == Content::Unreadable => {
            Settlement::DeadLetter(Reason::Unreadable)
        }
        Kind::Undecodable if now.content == Content::NoRoute => {
            Settlement::DeadLetter(Reason::NoRoute)
        }
        Kind::Undecodable => Settlement::DeadLetter(Reason::Undecodable),
        Kind::Invalid => Settlement::DeadLetter(Reason::Invalid),
        Kind::Keyless => Settlement::DeadLetter(Reason::Keyless),
        Kind::KeyReused => Settlement::DeadLetter(Reason::KeyReused),
        Kind::InDoubt => Settlement::DeadLetter(Reason::InDoubt),
        Kind::SessionExpired => Settlement::DeadLetter(Reason::SessionExpired),
        Kind::BeyondWindow => Settlement::DeadLetter(Reason::BeyondWindow),
        Kind::Late => Settlement::DeadLetter(Reason::Late),
        // Also any kind that a later version of the engine adds: nothing is lost by leaving it.
        _ => Settlement::Leave,
    }
}

fn give_up(given_up: GivenUp, reason: Reason) -> Settlement {
    match given_up {
        GivenUp::Ack => Settlement::Drop(reason),
        // Also what a later version of the engine adds: a dead letter is not lost.
        _ => Settlement::DeadLetter(reason),
    }
}

/// A conflict that is not held, or no longer.
fn step_back(kind: ExecutionKind, now: &Circumstances<'_>) -> Settlement {
    match go_elsewhere(kind, now) {
        Settlement::Retry { after } | Settlement::Requeue { after }
            if now.behind != Behind::Nothing =>
        {
            Settlement::Hold {
                recheck: after.min(LONGEST_HOLD),
            }
        }
        settlement => settlement,
    }
}

fn go_elsewhere(kind: ExecutionKind, now: &Circumstances<'_>) -> Settlement {
    match now.retries {
        Retries::Ladder(ladder) if kind == ExecutionKind::Ahead => Settlement::Retry {
            after: ladder.rung_within(now.conflicts, LONGEST_AHEAD),
        },
        Retries::Ladder(ladder) => Settlement::Retry {
            after: ladder.rung_after(now.conflicts, now.remaining),
        },
        // Also where the queue delays what is returned: a queue that was said to, and does not,
        // would make a hot loop of it.
        Retries::Here => Settlement::Hold {
            recheck: wait(RETURN, now.tries, now),
        },
        Retries::Local | Retries::Native => {
            requeue_or_hold(wait(RETURN, now.returns.saturating_add(1), now), now)
        }
    }
}

/// How the message comes back for another attempt, after a while.
fn come_back(wanted: Duration, now: &Circumstances<'_>) -> Settlement {
    match now.retries {
        Retries::Ladder(ladder) if wanted < ladder.first().min(LONGEST_DELAY) && has_room(now) => {
            match (now.source, now.runner) {
                (Source::Queue, _) => Settlement::Requeue { after: wanted },
                (Source::Stream, Runner::Runs) => Settlement::Hold { recheck: wanted },
                (Source::Stream, Runner::Panicked) => Settlement::Retry {
                    after: ladder.rung_for(wanted),
                },
            }
        }
        Retries::Ladder(ladder) => Settlement::Retry {
            after: ladder.rung_for(wanted),
        },
        Retries::Here if now.runner == Runner::Runs => Settlement::Hold {
            recheck: wanted.min(LONGEST_DELAY),
        },
        Retries::Here | Retries::Local => requeue_or_hold(wanted.min(LONGEST_DELAY), now),
        Retries::Native => Settlement::Requeue {
            after: Duration::ZERO,
        },
    }
}

/// Whether a message can wait here, and be returned. On the ladder the broker counts its deliveries anew.
fn has_room(now: &Circumstances<'_>) -> bool {
    !now.full && !now.last_returns && now.counted == Counted::Anyway
}

/// Close to its queue's delivery limit a message is not returned any more, because the broker would
/// drop it or dead-letter it without a reason: it is kept here until it is done with. A stream takes nothing back. If
/// nobody is left to claim it again, it is dead-lettered.
fn requeue_or_hold(after: Duration, now: &Circumstances<'_>) -> Settlement {
    match now.runner {
        _ if !now.last_returns && now.source == Source::Queue => Settlement::Requeue { after },
        Runner::Runs => Settlement::Hold { recheck: after },
        Runner::Panicked => Settlement::DeadLetter(Reason::Exhausted),
    }
}

/// Often at first, rarely later, and just after the holder's lease would run out.
fn recheck(now: &Circumstances<'_>) -> Duration {
    let after_lease = now
        .remaining
        .saturating_add(jitter(Duration::from_millis(50), now.random));
    wait(RECHECK, now.tries, now).min(after_lease.max(Duration::from_millis(50)))
}

/// How long to wait the so many-th time.
fn wait(backoff: Backoff, time: u32, now: &Circumstances<'_>) -> Duration {
    let doublings = time.saturating_sub(1).min(16);
    let full = backoff
        .first()
        .saturating_mul(1 << doublings)
        .min(backoff.longest());
    jitter(full, now.random)
}

/// Between half of it and all of it.
fn jitter(full: Duration, random: f64) -> Duration {
    full.mul_f64(random.mul_add(0.5, 0.5))
}
