//! The state machine of one record: the call, the record and the time in, the answer and the
//! record to write out.

use std::time::Duration;

use crate::message::Fingerprint;
use crate::{
    handler::Outcome,
    store::{Owner, Release},
};

mod claim;
mod intervene;
mod shown;
#[cfg(test)]
mod tests;
mod writes;

pub(crate) use claim::claim;
pub(crate) use intervene::{Ruling, intervene};
pub(crate) use writes::{complete, extend, release};

/// What a store keeps for one key. Times are microseconds of the store's clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    /// Of the last claim; it stays when the lease ends, so that the next one is greater.
    pub(crate) token: i64,
    pub(crate) attempts: u32,
    pub(crate) in_doubt: bool,
    /// Of the last claim, so that a repeated claim is recognised.
    pub(crate) owner: Owner,
    pub(crate) fingerprint: Option<Fingerprint>,
    /// How long the record lives after its last write.
    pub(crate) retention: i64,
    /// The retention after the last write, after the lease's end or after a retry is due,
    /// whichever comes last.
    pub(crate) forget_at: i64,
    pub(crate) state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum State {
    InProgress {
        lease_ends: i64,
    },
    Completed {
        outcome: Outcome,
    },
    Failed {
        reason: Reason,
        error: Option<String>,
        /// Before this only a replay acquires; there is none unless a failure asked for a delay.
        not_before: Option<i64>,
    },
}

/// Why a key was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    Failed,
    Abandoned,
    GaveUp,
    Quarantined,
}

/// What a call comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step<A> {
    pub(crate) answer: A,
    /// `None` leaves the record as it is.
    pub(crate) write: Option<Record>,
}

impl Record {
    /// Whether its retention has ended.
    pub(crate) fn is_forgotten(&self, now: i64) -> bool {
        self.forget_at <= now
    }
}

/// As a column of a table says it.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl Reason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
            Self::GaveUp => "gave_up",
            Self::Quarantined => "quarantined",
        }
    }

    pub(crate) fn read(text: &str) -> Result<Self, String> {
        [
            Self::Failed,
            Self::Abandoned,
            Self::GaveUp,
            Self::Quarantined,
        ]
        .into_iter()
        .find(|reason| reason.as_str() == text)
        .ok_or_else(|| format!("`{text}` is no reason"))
    }
}

impl From<&Release> for Reason {
    fn from(release: &Release) -> Self {
        match release {
            Release::Failed { .. } => Self::Failed,
            Release::Abandoned => Self::Abandoned,
            Release::GaveUp { .. } => Self::GaveUp,
            Release::Quarantined => Self::Quarantined,
        }
    }
}

/// A duration in microseconds, as long as can be for one that is longer.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn stay<A>(answer: A) -> Step<A> {
    Step {
        answer,
        write: None,
    }
}

fn after(now: i64, duration: Duration) -> i64 {
    now.saturating_add(micros(duration))
}
