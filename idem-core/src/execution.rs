//! How one message ended in the engine.

use std::{fmt, time::Duration};

use crate::{Failure, KeyError, Outcome, StoreError, Verdict};

/// How one message ended in the engine. A replay of a remembered outcome is
/// [`Duplicate`](Self::Duplicate), an execution is [`Executed`](Self::Executed).
#[derive(Debug)]
#[non_exhaustive]
pub enum Execution<T, E> {
    /// The handler ran, and its completion is committed.
    Executed {
        /// What the handler returned.
        output: T,
        /// Which attempt it was, from 1.
        attempt: u32,
    },
    /// The handler ran without a claim, or its completion could not be committed, because the store
    /// was away and the policy is to fail open. That it is done is in this process's memory, and
    /// reported to the store in the background; if the process ends before that, nobody knows.
    Unprotected {
        /// What the handler returned.
        output: T,
        /// Which attempt it was, as far as this process knows.
        attempt: u32,
    },
    /// The work was done before; the handler did not run.
    Duplicate {
        /// What the handler returned then.
        outcome: Outcome,
        /// How long it is still remembered.
        remaining: Duration,
    },
    /// Another worker holds the key, or its last attempt failed and the next is not due yet; the
    /// handler did not run.
    Conflict {
        /// How long the lease still holds unless it is extended, or until the next attempt is due.
        remaining: Duration,
    },
    /// The attempt failed and is worth another one; the key is released.
    Failed {
        /// Why.
        cause: Cause<E>,
        /// Which attempt it was.
        attempt: u32,
        /// How long to wait before the next one.
        retry_after: Duration,
    },
    /// The handler rejected the message for good; the key is given up.
    Rejected {
        /// Why.
        cause: Cause<E>,
        /// Which attempt it was.
        attempt: u32,
    },
    /// The attempts are used up; the key is given up.
    Exhausted {
        /// Why the last attempt failed.
        cause: Cause<E>,
        /// How many there were.
        attempt: u32,
    },
    /// The body, or a parameter of the handler, could not be made out; the handler did not run.
    Undecodable {
        /// What is wrong with the message.
        error: String,
    },
    /// The message has no usable key; the handler did not run.
    Keyless {
        /// What it lacks.
        error: KeyError,
    },
    /// The key stands for other content; the handler did not run.
    KeyReused,
    /// An earlier attempt ended without a word and the policy is to quarantine; the handler did
    /// not run.
    InDoubt,
    /// The store could not be asked; the handler did not run.
    StoreUnavailable {
        /// What the store said.
        error: StoreError,
    },
    /// The store has a record of the key that this version cannot read; the handler did not run,
    /// whatever the policy.
    RecordCorrupt {
        /// What the store said.
        error: StoreError,
    },
    /// Another worker took the key over while the handler ran. The handler's future was dropped, or
    /// its completion refused.
    LeaseLost {
        /// Which attempt it was.
        attempt: u32,
    },
    /// The executor was closed before the handler was polled; the key is released.
    Abandoned,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause<E> {
    /// The handler returned an error.
    Error(E),
    /// The handler panicked, with this message.
    Panicked(String),
    /// The database refused the handler's transaction, or the handler had ended it by itself.
    Refused(String),
    /// The attempts before this one used up the maximum, the last of them without a word: the
    /// worker may have died of the message.
    Vanished,
}

impl<E: Failure> Cause<E> {
    /// What is worth no further attempt.
    pub(crate) fn is_for_good(&self) -> bool {
        matches!(self, Self::Error(error) if error.verdict() == Verdict::Reject)
    }
}

impl<E: Failure> fmt::Display for Cause<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => f.write_str(&error.describe()),
            Self::Panicked(message) => write!(f, "the handler panicked: {message}"),
            Self::Refused(error) => write!(f, "the transaction was refused: {error}"),
            Self::Vanished => {
                f.write_str("no attempt is left, and the last one ended without a word")
            }
        }
    }
}

/// The kind of an [`Execution`]: the label under which it is counted. Every delivery has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants are those of `Execution`")]
pub enum ExecutionKind {
    Executed,
    Unprotected,
    Duplicate,
    Conflict,
    Failed,
    Rejected,
    Exhausted,
    Undecodable,
    Keyless,
    KeyReused,
    InDoubt,
    StoreUnavailable,
    RecordCorrupt,
    LeaseLost,
    Abandoned,
    /// The worker stopped while the handler was still running: its lease will run out.
    Interrupted,
}

impl ExecutionKind {
    /// All of them, in the order in which they are reported.
    pub const ALL: &'static [Self] = &[
        Self::Executed,
        Self::Unprotected,
        Self::Duplicate,
        Self::Conflict,
        Self::Failed,
        Self::Rejected,
        Self::Exhausted,
        Self::Undecodable,
        Self::Keyless,
        Self::KeyReused,
        Self::InDoubt,
        Self::StoreUnavailable,
        Self::RecordCorrupt,
        Self::LeaseLost,
        Self::Abandoned,
        Self::Interrupted,
    ];

    /// The label in logs and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Unprotected => "unprotected",
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Exhausted => "exhausted",
            Self::Undecodable => "undecodable",
            Self::Keyless => "keyless",
            Self::KeyReused => "key_reused",
            Self::InDoubt => "in_doubt",
            Self::StoreUnavailable => "store_unavailable",
            Self::RecordCorrupt => "record_corrupt",
            Self::LeaseLost => "lease_lost",
            Self::Abandoned => "abandoned",
            Self::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for ExecutionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

impl<T, E> Execution<T, E> {
    /// The label under which this is counted.
    pub const fn kind(&self) -> ExecutionKind {
        match self {
            Self::Executed { .. } => ExecutionKind::Executed,
            Self::Unprotected { .. } => ExecutionKind::Unprotected,
            Self::Duplicate { .. } => ExecutionKind::Duplicate,
            Self::Conflict { .. } => ExecutionKind::Conflict,
            Self::Failed { .. } => ExecutionKind::Failed,
            Self::Rejected { .. } => ExecutionKind::Rejected,
            Self::Exhausted { .. } => ExecutionKind::Exhausted,
            Self::Undecodable { .. } => ExecutionKind::Undecodable,
            Self::Keyless { .. } => ExecutionKind::Keyless,
            Self::KeyReused => ExecutionKind::KeyReused,
            Self::InDoubt => ExecutionKind::InDoubt,
            Self::StoreUnavailable { .. } => ExecutionKind::StoreUnavailable,
            Self::RecordCorrupt { .. } => ExecutionKind::RecordCorrupt,
            Self::LeaseLost { .. } => ExecutionKind::LeaseLost,
            Self::Abandoned => ExecutionKind::Abandoned,
        }
    }

    /// Which attempt ran, if one did.
    pub const fn attempt(&self) -> Option<u32> {
        match self {
            Self::Executed { attempt, .. }
            | Self::Unprotected { attempt, .. }
            | Self::Failed { attempt, .. }
            | Self::Rejected { attempt, .. }
            | Self::Exhausted { attempt, .. }
            | Self::LeaseLost { attempt } => Some(*attempt),
            _ => None,
        }
    }
}

impl<T, E: Failure> Execution<T, E> {
    /// What went wrong, in one line; `None` where nothing did.
    pub fn error(&self) -> Option<String> {
        match self {
            Self::Executed { .. }
            | Self::Unprotected { .. }
            | Self::Duplicate { .. }
            | Self::Conflict { .. }
            | Self::Abandoned => None,
            Self::Failed { cause, .. }
            | Self::Rejected { cause, .. }
            | Self::Exhausted { cause, .. } => Some(cause.to_string()),
            Self::Undecodable { error } => Some(error.clone()),
            Self::Keyless { error } => Some(error.to_string()),
            Self::KeyReused => Some("the key was used before for other content".into()),
            Self::InDoubt => Some(
                "an earlier attempt ended without a word: its effects may have happened".into(),
            ),
            Self::StoreUnavailable { error } | Self::RecordCorrupt { error } => {
                Some(error.to_string())
            }
            Self::LeaseLost { .. } => Some("the lease was lost while the handler ran".into()),
        }
    }
}
