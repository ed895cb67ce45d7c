//! What RabbitMQ is told about a message that ended: the table of the guarantees, as a function.

use std::time::Duration;

use idem_core::{
    Policy,
    executor::ExecutionKind,
    handler::{Backoff, GivenUp, OnConflict, OnDuplicate},
};

use crate::wire::retries::Retries;

/// What becomes of a delivery.
///
/// ```
/// use idem_amqp::worker::{Settled, Settlement};
///
/// /// For [`WorkerBuilder::on_settled`](crate::WorkerBuilder::on_settled).
/// fn tell(settled: &Settled<'_>) {
///     if let Settlement::DeadLetter(reason) = settled.settlement {
///         println!("{} of {:?}: {reason:?}", settled.queue, settled.key);
///     }
/// }
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
    /// It is left unsettled: the broker gets it back when the channel ends.
    Leave,
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
    /// Its properties, its exchange or its routing key cannot be read by the AMQP client: what could not is
    /// replaced or left out.
    Unreadable,
    /// No [route](crate::worker::Routes) of its queue takes it.
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
    /// Its turn in its sequence has passed without it; or it is older than its key would be remembered, and its handler wants
    /// such messages to be seen (`late = "quarantine"`).
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

    pub(crate) fn index(self) -> usize {
        let at = Self::ALL.iter().position(|other| *other == self);
        at.expect("ALL has every reason")
    }

    /// The header's value.
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

/// Who wants to know what becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    Nobody,
    /// Whoever waits for a reply.
    Requester,
    /// Whoever waited for a reply, but a refusal that somebody has to hear of did not get there.
    Untold,
    /// The person who has sent a dead letter again: it must not vanish unrun.
    Operator,
}

/// Whether there is something to keep of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Published,
    /// The AMQP client cannot read all of its properties.
    Unreadable,
    /// It can be read, and no route of its queue takes it.
    NoRoute,
    /// Its publisher has withdrawn it, and published its number alone.
    Withdrawn,
}

/// Whether the code round the handler still runs, and can claim a message once more that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    Runs,
    Panicked,
}

/// Whether a message may have been attempted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivered {
    First,
    Again,
}

/// Who counts the attempts that a message has had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Its key's record, or the broker.
    Anyway,
    /// Only what it carries when it comes back from the ladder.
    OnTheLadder,
}

/// Whether what is not done can go back to where it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Queue,
    /// It takes nothing back.
    Stream,
}

/// What the settlement depends on beside the kind of the execution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances<'a> {
    /// What the handler, or its queue, wants to become of its messages.
    pub(crate) policy: &'a Policy,
    /// How messages of this queue come back.
    pub(crate) retries: &'a Retries,
    pub(crate) source: Source,
    /// How often this delivery was tried.
    pub(crate) tries: u32,
    /// How long this delivery has been held because of conflicts.
    pub(crate) held: Duration,
    /// How often the message has been to the ladder because of conflicts.
    pub(crate) conflicts: u32,
    /// How often it has been returned to its queue.
    pub(crate) returns: u32,
    /// Whether the message may be returned only a few times more before the broker drops it.
    pub(crate) last_returns: bool,
    /// Whether as many deliveries are held as may be.
    pub(crate) full: bool,
    /// Ahead: whether the numbers before it are being handled here.
    pub(crate) near: bool,
    /// Who counts its attempts.
    pub(crate) counted: Counted,
    /// Whether there is something to keep.
    pub(crate) content: Content,
    /// Whether it can be held.
    pub(crate) runner: Runner,
    /// Conflict: how long the holder's lease still lasts.
    pub(crate) remaining: Duration,
    /// Failure: how long to wait before the next attempt.
    pub(crate) retry_after: Duration,
    /// Who wants to know what becomes of it.
    pub(crate) asker: Asker,
    /// Whether it may be the one that its key is held for, or was completed by.
    pub(crate) delivered: Delivered,
    /// From 0 to 1.
    pub(crate) random: f64,
}

impl<'a> Circumstances<'a> {
    /// Those of a delivery that has just come.
    pub(crate) fn new(retries: &'a Retries) -> Self {
        Self {
            policy: &Policy::DEFAULT,
            retries,
            source: Source::Queue,
            tries: 0,
            held: Duration::ZERO,
            conflicts: 0,
            returns: 0,
            last_returns: false,
            full: false,
            near: false,
            counted: Counted::Anyway,
            content: Content::Published,
            runner: Runner::Runs,
            remaining: Duration::ZERO,
            retry_after: Duration::ZERO,
            asker: Asker::Nobody,
            delivered: Delivered::First,
            random: 0.0,
        }
    }
}

impl Circumstances<'_> {
    /// Whether nothing is lost with this message but its own content: another one has the key, and is done or attempted
    /// again, and nobody waits for an answer to this one. What a stream delivers may be the message itself, read again:
    /// somebody has set the mark back.
    fn is_only_a_copy(&self) -> bool {
        self.asker == Asker::Nobody
            && self.delivered == Delivered::First
            && self.source == Source::Queue
    }
}

/// How long a conflicting delivery is held before it goes to the ladder, or back to its queue. Well
/// under the broker's consumer timeout of 30 minutes.
pub(crate) const LONGEST_HOLD: Duration = Duration::from_mins(1);

/// How long a failed delivery is kept for its next attempt, at most: half the consumer timeout.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_mins(15);

/// How long a number that is ahead waits on the ladder at a time, where there is such a rung: nobody
/// knows when the one that it waits for is done, and very many may come right after that.
const LONGEST_AHEAD: Duration = Duration::from_mins(1);

/// Between a lost lease, or a conflict that is not held, and the return to the queue: ever longer,
/// for most queues deliver what is returned at once.
const RETURN: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(8));

/// A number whose turn is near is woken; this is for numbers that end elsewhere.
const RECHECK_NEAR: Duration = Duration::from_secs(1);

/// A copy elsewhere is at work for as long as a handler takes: for milliseconds, most often.
const RECHECK: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(5));
const RECHECK_AHEAD: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
const OUTAGE: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
/// A person has to mend the record, or a newer version of the program to read it.
const CORRUPT: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(1));

/// The settlement of a message that ended this way.
pub(crate) fn settle(kind: ExecutionKind, now: &Circumstances<'_>) -> Settlement {
    use ExecutionKind as Kind;
    match kind {
        // What is told is a rejection, also that of an earlier copy. A person sees it as a dead letter.
        Kind::Executed
        | Kind::Unprotected
        | Kind::Observed
        | Kind::Unclaimed
        | Kind::Duplicate
        | Kind::Refused
            if now.asker == Asker::Untold =>
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
        Kind::Ahead if now.near && now.held < LONGEST_HOLD => Settlement::Hold {
            recheck: jitter(RECHECK_NEAR, now.random),
        },
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
    match now.retries {
        Retries::Ladder(ladder) if kind == ExecutionKind::Ahead => Settlement::Retry {
            after: ladder.rung_within(now.conflicts, LONGEST_AHEAD),
        },
        Retries::Ladder(ladder) => Settlement::Retry {
            after: ladder.rung_after(now.conflicts, now.remaining),
        },
        // Also where the queue delays what is returned: a queue that was said to, and does not,
        // would make a hot loop of it.
        Retries::Local | Retries::Native(_) => {
            requeue_or_hold(wait(RETURN, now.returns.saturating_add(1), now), now)
        }
    }
}

/// For another attempt, after a while.
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
        Retries::Local => requeue_or_hold(wanted.min(LONGEST_DELAY), now),
        Retries::Native(_) => Settlement::Requeue {
            after: Duration::ZERO,
        },
    }
}

/// Whether a message can wait here, and be returned. On the ladder the broker counts its deliveries anew.
fn has_room(now: &Circumstances<'_>) -> bool {
    !now.full && !now.last_returns && now.counted == Counted::Anyway
}

/// Close to its queue's delivery limit a message is not returned any more, because the broker would
/// drop it or dead-letter it without a reason: it is kept here until it is done with. If nobody is left to claim it
/// again, it is dead-lettered.
fn requeue_or_hold(after: Duration, now: &Circumstances<'_>) -> Settlement {
    match now.runner {
        _ if !now.last_returns => Settlement::Requeue { after },
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

#[cfg(test)]
mod tests;
