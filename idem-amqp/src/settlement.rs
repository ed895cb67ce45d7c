//! What RabbitMQ is told about a message that ended: the table of the guarantees, as a function.

use std::time::Duration;

use idem_core::{Backoff, ExecutionKind};

/// What becomes of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// The message is done with.
    Ack,
    /// It goes to the dead-letter queue, for this reason, and is then acknowledged.
    DeadLetter(Reason),
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
    /// It is left unsettled: the broker gets it back when the channel ends.
    Leave,
}

/// Why a message was dead-lettered: the header `idem-reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The handler rejected it for good.
    Rejected,
    /// Its attempts are used up.
    Exhausted,
    /// The body, or a parameter of the handler, could not be made out.
    Undecodable,
    /// It has no usable key.
    Keyless,
    /// Its key stands for other content.
    KeyReused,
    /// An earlier attempt ended without a word.
    InDoubt,
}

impl Reason {
    /// The header's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Exhausted => "exhausted",
            Self::Undecodable => "undecodable",
            Self::Keyless => "keyless",
            Self::KeyReused => "key-reused",
            Self::InDoubt => "in-doubt",
        }
    }
}

/// What the settlement depends on beside the kind of the execution.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Circumstances {
    /// How often this delivery has been claimed.
    pub(crate) claims: u32,
    /// How long this delivery has been held because of conflicts.
    pub(crate) held: Duration,
    /// Whether the message may be returned only a few times more before the broker drops it.
    pub(crate) last_returns: bool,
    /// Whether as many deliveries are held as may be.
    pub(crate) full: bool,
    /// Conflict: how long the holder's lease still lasts.
    pub(crate) remaining: Duration,
    /// Failure: how long to wait before the next attempt.
    pub(crate) retry_after: Duration,
    /// From 0 to 1.
    pub(crate) random: f64,
}

/// How long a conflicting delivery is held before it goes back to its queue. Well under the
/// broker's consumer timeout of 30 minutes.
pub(crate) const LONGEST_HOLD: Duration = Duration::from_mins(1);

/// How long a failed delivery is kept for its next attempt, at most: half the consumer timeout.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_mins(15);

/// Between a conflict that was held long enough, or a lost lease, and the return to the queue.
const RETURN_DELAY: Duration = Duration::from_secs(1);

const RECHECK: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
const OUTAGE: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
/// A person has to mend the record, or a newer version of the program to read it.
const CORRUPT: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(1));

/// The settlement of a message that ended this way.
///
/// Close to its queue's delivery limit a message is not returned any more, because the broker would
/// drop it or dead-letter it without a reason: it is kept here until it is done with.
pub(crate) fn settle(kind: ExecutionKind, now: &Circumstances) -> Settlement {
    match settle_far_from_limit(kind, now) {
        Settlement::Requeue { after } if now.last_returns => Settlement::Hold { recheck: after },
        settlement => settlement,
    }
}

fn settle_far_from_limit(kind: ExecutionKind, now: &Circumstances) -> Settlement {
    use ExecutionKind as Kind;
    match kind {
        Kind::Executed | Kind::Unprotected | Kind::Duplicate => Settlement::Ack,
        Kind::Conflict if now.full || now.held >= LONGEST_HOLD => Settlement::Requeue {
            after: jitter(RETURN_DELAY, now.random),
        },
        Kind::Conflict => Settlement::Hold {
            recheck: recheck(now),
        },
        Kind::Failed => Settlement::Requeue {
            after: now.retry_after.min(LONGEST_DELAY),
        },
        Kind::LeaseLost => Settlement::Requeue {
            after: jitter(RETURN_DELAY, now.random),
        },
        Kind::StoreUnavailable => Settlement::Hold {
            recheck: wait(OUTAGE, now),
        },
        Kind::RecordCorrupt => Settlement::Hold {
            recheck: wait(CORRUPT, now),
        },
        Kind::Rejected => Settlement::DeadLetter(Reason::Rejected),
        Kind::Exhausted => Settlement::DeadLetter(Reason::Exhausted),
        Kind::Undecodable => Settlement::DeadLetter(Reason::Undecodable),
        Kind::Keyless => Settlement::DeadLetter(Reason::Keyless),
        Kind::KeyReused => Settlement::DeadLetter(Reason::KeyReused),
        Kind::InDoubt => Settlement::DeadLetter(Reason::InDoubt),
        // Also any kind that a later version of the engine adds: nothing is lost by leaving it.
        _ => Settlement::Leave,
    }
}

/// Often at first, rarely later, and just after the holder's lease would run out.
fn recheck(now: &Circumstances) -> Duration {
    let after_lease = now
        .remaining
        .saturating_add(jitter(Duration::from_millis(50), now.random));
    wait(RECHECK, now).min(after_lease.max(RECHECK.first() / 2))
}

fn wait(backoff: Backoff, now: &Circumstances) -> Duration {
    let doublings = now.claims.saturating_sub(1).min(16);
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

#[cfg(test)]
mod tests;
