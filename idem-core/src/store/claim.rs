//! The store's answers, and what a worker tells it at the end.

use std::time::Duration;

use crate::{
    handler::{Attempt, FencingToken, MAX_ERROR_LEN, Outcome, cut_error},
    message::Key,
};

/// The store's answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Claim {
    /// The claimant works, under this lease.
    Acquired(Lease),
    /// Another worker holds the key, and its lease ends in `remaining` unless it is extended; or
    /// the last attempt failed, and the next one is due in `remaining`.
    Held {
        /// May be zero.
        remaining: Duration,
    },
    /// The work is done and committed.
    Completed {
        /// What the handler returned.
        outcome: Outcome,
        /// How long it will be remembered.
        remaining: Duration,
    },
    /// The key stands for other content.
    KeyReused,
    /// An attempt ended in doubt and waits for a person: only a replay runs.
    Quarantined,
    /// Its session or its sequence lets nothing run at this place. A store that
    /// [keeps](super::Store::keeps) neither never answers this.
    OutOfPlace(OutOfPlace),
}

/// Why nothing runs at a place in a session or a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutOfPlace {
    /// The session's client no longer awaits this answer, which is gone; it may have run or not.
    Stale,
    /// The session is unknown or has ended; this may have run or not.
    SessionExpired,
    /// The number is too far above the lowest one that the session's client awaits: nothing runs
    /// before that has moved on.
    BeyondWindow {
        /// How many numbers may be in use.
        window: u32,
    },
    /// The number's turn has passed without it: it was given up, or skipped. Only a replay runs.
    Late,
    /// The number is too far above the lowest one of its sequence that is not done: nothing runs
    /// before that is.
    Ahead {
        /// The lowest number that is not done.
        mark: u64,
        /// How many numbers may be in use.
        window: u32,
    },
}

impl From<OutOfPlace> for Claim {
    fn from(why: OutOfPlace) -> Self {
        Self::OutOfPlace(why)
    }
}

/// Proof of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// What is being worked on.
    pub key: Key,
    /// The fencing token of this claim.
    pub token: FencingToken,
    /// How often the key has been claimed and not abandoned, this time included.
    pub attempt: u32,
    /// Whether the attempt before ended without a word.
    pub in_doubt: bool,
}

impl Lease {
    /// For store implementations: the proof of a claim just recorded.
    pub fn new(key: Key, token: FencingToken, attempt: u32, in_doubt: bool) -> Self {
        Self {
            key,
            token,
            attempt,
            in_doubt,
        }
    }

    /// The attempt that runs under it, one of so many.
    pub(crate) fn to_attempt(&self, max: u32) -> Attempt {
        Attempt::recorded(self.attempt, max, self.token, self.in_doubt)
    }
}

/// Whether a write under a lease took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a fenced write had no effect"]
pub enum Write {
    /// The write took effect, now or when it was first tried.
    Applied,
    /// The lease is no longer the current one; nothing was changed.
    Fenced,
}

/// Why a key is given back.
///
/// A store takes two releases for the very same write if their reasons are the same: a repeat
/// changes neither the error nor the time of the retry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// The attempt failed; the key is free for the next one as soon as that is due.
    Failed {
        /// In one line, at most [`Release::MAX_ERROR_LEN`] bytes.
        error: String,
        /// How long from now, on the store's clock, the key is held for everybody but a replay;
        /// other content is refused meanwhile. Zero frees it at once.
        retry_after: Duration,
    },
    /// The handler was never polled: this was not an attempt.
    Abandoned,
    /// The message is being dead-lettered: attempts restart and the fingerprint is dropped, so
    /// that a replay runs.
    GaveUp {
        /// In one line, at most [`Release::MAX_ERROR_LEN`] bytes.
        error: String,
    },
    /// The message is being dead-lettered in doubt: other copies are quarantined too, only a
    /// replay runs.
    Quarantined,
}

impl Release {
    /// The longest error that is kept, in bytes.
    pub const MAX_ERROR_LEN: usize = MAX_ERROR_LEN;

    /// The attempt failed, and the next one is due at once; the error is cut to its maximum
    /// length.
    pub fn failed(error: impl Into<String>) -> Self {
        Self::retry_after(Duration::ZERO, error)
    }

    /// The attempt failed, and the next one is due after a delay; the error is cut to its maximum
    /// length.
    pub fn retry_after(delay: Duration, error: impl Into<String>) -> Self {
        Self::Failed {
            error: cut_error(error.into()),
            retry_after: delay,
        }
    }

    /// The message is given up; the error is cut to its maximum length.
    pub fn gave_up(error: impl Into<String>) -> Self {
        Self::GaveUp {
            error: cut_error(error.into()),
        }
    }
}
