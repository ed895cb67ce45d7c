//! What a store tells an operator of one key.

use std::{
    fmt,
    str::FromStr,
    time::{Duration, SystemTime},
};

use crate::{
    handler::FencingToken,
    message::{Fingerprint, Key},
    store::Owner,
};

/// One key as its store has it, without the outcome's bytes. All times are the store's clock's: durations count from
/// when it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyRecord {
    /// What is being worked on.
    pub key: Key,
    /// The fencing token of the last claim.
    pub token: FencingToken,
    /// How often the key has been claimed and not abandoned.
    pub attempts: u32,
    /// Whether an attempt ended without a word.
    pub in_doubt: bool,
    /// Who claimed it last; `None` where a store does not keep that of a completed key.
    pub owner: Option<Owner>,
    /// The digest of its content.
    pub fingerprint: Option<Fingerprint>,
    /// When the key was claimed first, or completed by hand, since it was last unknown; `None` if an earlier version
    /// of this program has written the record.
    pub created_at: Option<SystemTime>,
    /// When it was completed; `None` if it is not, or if an earlier version of this program has completed it in Redis.
    pub completed_at: Option<SystemTime>,
    /// How long ago the record was written last: claimed, extended, completed, given back, or changed by an operator.
    pub age: Duration,
    /// How long it will be remembered; zero if its retention has ended and it is not purged.
    pub remembered_for: Duration,
    /// What it is in the middle of.
    pub condition: Condition,
}

/// A key's state, and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// Claimed.
    InProgress {
        /// Zero if the lease has run out and nobody has taken over.
        lease_remaining: Duration,
    },
    /// Done.
    Completed {
        /// How large the outcome is, in bytes.
        outcome_bytes: u64,
    },
    /// The key is not done, and held by nobody.
    Failed {
        /// Why it was given back.
        reason: FailedReason,
        /// The last error.
        error: Option<String>,
        /// How long until the next attempt is due; zero if it is, or if only a replay runs.
        retry_in: Duration,
    },
}

/// The three states of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyState {
    /// `in_progress`
    InProgress,
    /// `completed`
    Completed,
    /// `failed`
    Failed,
}

/// Why a key was given back: a [`Release`](crate::store::Release) without its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailedReason {
    /// `failed`: the attempt failed, and there may be another.
    Failed,
    /// `abandoned`: the handler was never polled.
    Abandoned,
    /// `gave_up`: the message was dead-lettered.
    GaveUp,
    /// `quarantined`: the message was dead-lettered in doubt.
    Quarantined,
}

impl KeyRecord {
    /// For store implementations: a record of which nothing else is told yet.
    pub fn new(key: Key, token: FencingToken, condition: Condition) -> Self {
        Self {
            key,
            token,
            attempts: 0,
            in_doubt: false,
            owner: None,
            fingerprint: None,
            created_at: None,
            completed_at: None,
            age: Duration::ZERO,
            remembered_for: Duration::ZERO,
            condition,
        }
    }

    /// Its state in one word.
    pub fn state(&self) -> KeyState {
        match self.condition {
            Condition::InProgress { .. } => KeyState::InProgress,
            Condition::Completed { .. } => KeyState::Completed,
            Condition::Failed { .. } => KeyState::Failed,
        }
    }
}

impl KeyState {
    /// As a store writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

impl FailedReason {
    /// As a store writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
            Self::GaveUp => "gave_up",
            Self::Quarantined => "quarantined",
        }
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for FailedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// With `-` or `_` between its words.
impl FromStr for KeyState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "in_progress" | "in-progress" => Ok(Self::InProgress),
            "completed" => Ok(Self::Completed),
            "failed" => Ok(Self::Failed),
            _ => Err(format!(
                "`{text}` is no state: write `in-progress`, `completed` or `failed`"
            )),
        }
    }
}
