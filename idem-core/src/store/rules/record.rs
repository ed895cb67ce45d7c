//! The state machine of one record. A record is what a store keeps for one key.
//!
//! The functions are pure: the call, the record and the time go in, the answer and the record to
//! write come out. Stores that decide in Rust (memory, SQLite) call them while nobody else can
//! change the record. PostgreSQL decides in SQL and reads its rows by them; Redis decides in Lua.
//!
//! What must stay true:
//!
//! - A key's tokens grow with every claim.
//! - A write counts only under the current token.
//! - Only a completion ends the need to run.

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
pub(crate) use shown::moment;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) use writes::Change;
pub(crate) use writes::{complete, extend, release};

/// What a store keeps for one key. Times are microseconds of the store's clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    /// The token of the last claim. It stays when the lease ends, so that the next token is greater and a late write
    /// of the last owner is recognised.
    pub(crate) token: i64,
    /// How often the key has been claimed since it last began anew, but for claims that were
    /// abandoned.
    pub(crate) attempts: u32,
    /// Whether an earlier attempt ended without a word, so that its effects may have happened.
    pub(crate) in_doubt: bool,
    /// The owner of the last claim, so that a repeated claim is recognised: the owner may not have heard the first
    /// answer.
    pub(crate) owner: Owner,
    /// The fingerprint of the message that last claimed the key; `None` if nothing is to be compared.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// How long the record lives after its last write. Kept, because an extension and a release do
    /// not bring their own.
    pub(crate) retention: i64,
    /// The time from which the record counts as absent: the retention after the last write, after the lease's end or
    /// after a retry is due, whichever comes last.
    pub(crate) forget_at: i64,
    /// When the key was claimed first since it was last absent; `None` in what earlier versions of this program have
    /// written. For people only.
    pub(crate) created_at: Option<i64>,
    /// When it was written last. Of what is completed: when it was completed, because nothing writes it after that.
    pub(crate) written_at: i64,
    /// Who may work, or what came of the work.
    pub(crate) state: State,
}

/// The state of a key, with what only that state has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum State {
    InProgress {
        /// When the lease ends: until then nobody else acquires. Past it the lease is still the owner's until another
        /// claim takes over.
        lease_ends: i64,
    },
    Completed {
        /// What copies of the message are answered with until the retention ends.
        outcome: Outcome,
    },
    /// The lease was given back: free for the next attempt, unless the reason or a delay says
    /// otherwise.
    Failed {
        reason: Reason,
        error: Option<String>,
        /// Before this time only a replay acquires; there is none unless a failure asked for a delay.
        not_before: Option<i64>,
    },
}

/// Why a key was given back. It decides who may claim it next.
// docs/decisions/0001
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    /// The handler failed, and another attempt may succeed.
    Failed,
    /// The handler never ran: this was no attempt.
    Abandoned,
    /// The message goes to the dead letters, and its attempts begin anew if it is sent again.
    GaveUp,
    /// The message goes to the dead letters in doubt, and its copies do, too. Only a replay runs.
    Quarantined,
}

/// What a call comes to. The store writes the record and gives the answer together, or does
/// neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step<A> {
    pub(crate) answer: A,
    /// `None` leaves the record as it is.
    pub(crate) write: Option<Record>,
}

impl Record {
    /// Whether its retention has ended. Only claims, sequences and purges ask: a lease that nobody
    /// took over may still be extended and completed.
    pub(crate) fn is_forgotten(&self, now: i64) -> bool {
        self.forget_at <= now
    }
}

/// The reason as a column of a table holds it. The texts are stored at users', so they do not
/// change.
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

    /// The reverse of [`as_str`](Self::as_str); an error for the text of a later version.
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

/// A duration in microseconds. One that is too long becomes the longest that fits, so that no sum
/// wraps round to a time in the past.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// An answer that leaves the record as it is.
fn stay<A>(answer: A) -> Step<A> {
    Step {
        answer,
        write: None,
    }
}

/// The time this long after `now`, or the latest that fits.
fn after(now: i64, duration: Duration) -> i64 {
    now.saturating_add(micros(duration))
}
