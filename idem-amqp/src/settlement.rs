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
        Kind::Executed | Kind::Duplicate => Settlement::Ack,
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
mod tests {
    use ExecutionKind as Kind;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn certain() -> Circumstances {
        Circumstances {
            claims: 1,
            random: 1.0,
            remaining: 30 * SECOND,
            retry_after: 7 * SECOND,
            ..Circumstances::default()
        }
    }

    #[test]
    fn every_kind_has_its_settlement() {
        let table = [
            (Kind::Executed, Settlement::Ack),
            (Kind::Duplicate, Settlement::Ack),
            (
                Kind::Conflict,
                Settlement::Hold {
                    recheck: SECOND / 10,
                },
            ),
            (Kind::Failed, Settlement::Requeue { after: 7 * SECOND }),
            (Kind::Rejected, Settlement::DeadLetter(Reason::Rejected)),
            (Kind::Exhausted, Settlement::DeadLetter(Reason::Exhausted)),
            (
                Kind::Undecodable,
                Settlement::DeadLetter(Reason::Undecodable),
            ),
            (Kind::Keyless, Settlement::DeadLetter(Reason::Keyless)),
            (Kind::KeyReused, Settlement::DeadLetter(Reason::KeyReused)),
            (Kind::InDoubt, Settlement::DeadLetter(Reason::InDoubt)),
            (
                Kind::StoreUnavailable,
                Settlement::Hold {
                    recheck: SECOND / 5,
                },
            ),
            (Kind::LeaseLost, Settlement::Requeue { after: SECOND }),
            (Kind::Abandoned, Settlement::Leave),
            (Kind::Interrupted, Settlement::Leave),
        ];
        assert_eq!(table.map(|(kind, _)| kind), Kind::ALL);
        for (kind, settlement) in table {
            assert_eq!(settle(kind, &certain()), settlement, "{kind}");
        }
    }

    #[test]
    fn a_failed_delivery_is_never_kept_beyond_the_consumer_timeout() {
        let now = Circumstances {
            retry_after: Duration::MAX,
            ..certain()
        };
        let after = LONGEST_DELAY;
        assert_eq!(settle(Kind::Failed, &now), Settlement::Requeue { after });
    }

    #[test]
    fn only_a_committed_completion_is_acknowledged() {
        let acked: Vec<_> = (Kind::ALL.iter().copied())
            .filter(|kind| settle(*kind, &certain()) == Settlement::Ack)
            .collect();
        assert_eq!(acked, [Kind::Executed, Kind::Duplicate]);
    }

    #[test]
    fn a_conflict_is_rechecked_ever_more_rarely() {
        let rechecks = [1, 2, 3, 6, 7, 100].map(|claims| {
            settle(
                Kind::Conflict,
                &Circumstances {
                    claims,
                    ..certain()
                },
            )
        });
        let expected = [100, 200, 400, 3200, 5000, 5000].map(|ms| Settlement::Hold {
            recheck: Duration::from_millis(ms),
        });
        assert_eq!(rechecks, expected);
    }

    #[test]
    fn a_conflict_is_rechecked_just_after_the_lease_ends() {
        let now = Circumstances {
            claims: 7,
            remaining: SECOND,
            ..certain()
        };
        let recheck = Duration::from_millis(1050);
        assert_eq!(settle(Kind::Conflict, &now), Settlement::Hold { recheck });
    }

    #[test]
    fn a_conflict_with_an_expired_lease_is_no_hot_loop() {
        let now = Circumstances {
            remaining: Duration::ZERO,
            random: 0.0,
            ..certain()
        };
        let Settlement::Hold { recheck } = settle(Kind::Conflict, &now) else {
            panic!("held");
        };
        assert!(recheck >= Duration::from_millis(50));
    }

    #[test]
    fn a_conflict_over_the_cap_goes_back_to_the_queue_after_a_delay() {
        let now = Circumstances {
            full: true,
            ..certain()
        };
        assert_eq!(
            settle(Kind::Conflict, &now),
            Settlement::Requeue { after: SECOND }
        );
    }

    #[test]
    fn a_message_close_to_its_delivery_limit_is_kept_and_not_returned() {
        for kind in Kind::ALL {
            let far = settle(*kind, &certain());
            let close = Circumstances {
                last_returns: true,
                full: true,
                ..certain()
            };
            match (settle(*kind, &close), far) {
                (Settlement::Requeue { .. }, _) => panic!("{kind} is returned"),
                (Settlement::Hold { .. }, _) => {}
                (close, far) => assert_eq!(close, far, "{kind}"),
            }
        }
    }

    #[test]
    fn a_conflict_held_for_long_goes_back_to_the_queue_after_a_delay() {
        let now = Circumstances {
            held: LONGEST_HOLD,
            ..certain()
        };
        assert_eq!(
            settle(Kind::Conflict, &now),
            Settlement::Requeue { after: SECOND }
        );
    }
}
