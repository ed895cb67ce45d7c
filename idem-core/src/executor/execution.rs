//! How one message ended in the engine: an [`Execution`], why it failed ([`Cause`]), and the label under which it is
//! counted ([`ExecutionKind`]).
//!
//! Every mode ends in one, and a worker decides by its kind what becomes of the delivery. What must stay true:
//!
//! - Each delivery ends in exactly one kind and is counted once.
//! - `Executed`, `Refused` and `Duplicate` mean that a completion was seen committed, unless the policy is to fail open
//!   or to observe.

use std::{fmt, time::Duration};

use crate::{
    executor::Lateness,
    handler::{Failure, Outcome, Refusal, Verdict},
    message::KeyError,
    store::StoreError,
};

/// How one message ended in the engine. A replay of a remembered outcome is
/// [`Duplicate`](Self::Duplicate), an execution is [`Executed`](Self::Executed).
///
/// ```
/// use idem_core::Execution;
///
/// fn tell<T, E: idem_core::Failure>(ended: &Execution<T, E>) -> String {
///     match ended {
///         Execution::Executed { attempt, .. } => format!("done, at attempt {attempt}"),
///         Execution::Duplicate { .. } => "was done before".into(),
///         Execution::Conflict { remaining } => format!("look again in {remaining:?}"),
///         Execution::Failed { retry_after, .. } => format!("try again in {retry_after:?}"),
///         other => format!("{}: {}", other.kind(), other.error().unwrap_or_default()),
///     }
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Execution<T, E> {
    /// The handler ran, and its completion is committed.
    Executed {
        /// What the handler returned.
        output: T,
        /// What is remembered of it: the output, or why that could not be.
        outcome: Outcome,
        /// Which attempt it was, from 1.
        attempt: u32,
    },
    /// The handler ran without a claim, or its completion could not be committed, because the store
    /// was away and the policy is to fail open. That it is done is in this process's memory, and
    /// reported to the store in the background; if the process ends before that, nobody knows.
    Unprotected {
        /// What the handler returned.
        output: T,
        /// What is remembered of it: the output, or why that could not be.
        outcome: Outcome,
        /// Which attempt it was, as far as this process knows.
        attempt: u32,
    },
    /// The handler ran because the policy is to [observe](crate::handler::Enforcement::Observe): whatever the
    /// store had to say about it, and whether or not it took the completion. An attempt that failed is
    /// [`Failed`](Self::Failed), [`Rejected`](Self::Rejected) or [`Exhausted`](Self::Exhausted) as ever, and
    /// [`Prepared::would_have_been`](crate::Prepared::would_have_been) tells of it.
    Observed {
        /// What the handler returned.
        output: T,
        /// What is remembered of it, if the store took it: the output, or why that could not be.
        outcome: Outcome,
        /// Which attempt it was, as far as is known.
        attempt: u32,
        /// How the message would have ended without running to its end, if the policy were enforced.
        would_have_been: Option<ExecutionKind>,
    },
    /// The handler ran without a claim, because its message has no key and the policy is to
    /// [run](crate::handler::Keyless::Run) it, or because the handler is [plain](crate::handler::Enforcement::Plain).
    /// Nothing is remembered: a copy runs again.
    Unclaimed {
        /// What the handler returned.
        output: T,
        /// The same, for a reply.
        outcome: Outcome,
        /// Which attempt it was, as far as the transport knows.
        attempt: u32,
    },
    /// The work was done before; the handler did not run, or ran and [found it done](Verdict::DoneBefore).
    Duplicate {
        /// What is remembered of it: see [`Outcome::answer`].
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
    /// The handler rejected for good a message that [expects a reply](crate::Envelope::expects_reply),
    /// and that is remembered like an output: its completion is committed, or in this process's
    /// memory as that of [`Unprotected`](Self::Unprotected) is, or, if the policy is to
    /// [observe](crate::handler::Enforcement::Observe), whatever the store said.
    Refused {
        /// What is remembered, and the requester told.
        refusal: Refusal,
        /// Which attempt it was.
        attempt: u32,
    },
    /// The handler rejected the message for good; the key is given up. Or it did so before, when a
    /// reply was expected, and this copy expects none: then it did not run, the attempt is 0 and the
    /// cause [`Cause::Remembered`].
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
    /// The message was decoded, and the handler's [`validate`](crate::handler::Operation::validate) rejected it;
    /// nothing was claimed, and the handler did not run.
    Invalid {
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
    /// The policy is to quarantine, and nobody knows whether the work was done. An earlier attempt ended without a
    /// word, and the handler did not run now; then the attempt is 0. Or it ran now, and was stopped when its
    /// [time](crate::handler::PolicyBuilder::timeout) was over.
    InDoubt {
        /// Why nobody knows.
        error: String,
        /// Which attempt it was.
        attempt: u32,
    },
    /// The client of the session no longer awaits the answer to this number, and it is gone; the
    /// handler did not run now, whether it did before or not.
    Stale,
    /// The session is unknown or has ended; the handler did not run now, whether it did before or
    /// not.
    SessionExpired,
    /// The number is too far above the lowest one whose answer the session's client awaits; the
    /// handler did not run.
    BeyondWindow {
        /// How many numbers may be in use.
        window: u32,
    },
    /// The number's turn in its sequence has passed without it; or the message is older than its key would be
    /// remembered, and the policy is to quarantine such messages. The handler did not run, and does only for a replay.
    Late {
        /// Which of the two it is.
        why: Lateness,
    },
    /// The number is too far above the lowest one of its sequence that is not done; the handler did
    /// not run.
    Ahead {
        /// The lowest number that is not done.
        mark: u64,
        /// How many numbers may be in use.
        window: u32,
    },
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
    /// The executor was closed before the handler was polled, or polled again after its batch had failed; the key is
    /// released.
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
    /// The handler ran for longer than its [policy](crate::handler::PolicyBuilder::timeout) allows, which is this long,
    /// and was dropped.
    TimedOut(Duration),
    /// The database refused the handler's transaction, the handler had ended it by itself, or it was
    /// open for longer than the store's limit.
    Refused(String),
    /// The attempts before this one used up the maximum, the last of them without a word: the
    /// worker may have died of the message.
    Vanished,
    /// The message was rejected for good before, with this message, and that is remembered.
    Remembered(String),
    /// The numbered message was withdrawn by its publisher: nothing is to be done under its number.
    Withdrawn,
}

impl<E: Failure> Cause<E> {
    /// Whether no further attempt is to be made: the handler rejected the message, or found it done.
    pub(crate) fn is_for_good(&self) -> bool {
        matches!(self, Self::Error(error) if error.verdict() == Verdict::Reject)
            || self.is_done_before()
    }

    /// Whether the handler found the message done.
    pub(crate) fn is_done_before(&self) -> bool {
        matches!(self, Self::Error(error) if error.verdict() == Verdict::DoneBefore)
    }
}

impl<E: Failure> fmt::Display for Cause<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => f.write_str(&error.describe()),
            Self::Panicked(message) => write!(f, "the handler panicked: {message}"),
            Self::TimedOut(timeout) => write!(f, "timed out after {timeout:?}"),
            Self::Refused(error) => write!(f, "the transaction was refused: {error}"),
            Self::Vanished => {
                f.write_str("no attempt is left, and the last one ended without a word")
            }
            Self::Remembered(message) => write!(f, "rejected before: {message}"),
            Self::Withdrawn => f.write_str("its publisher has withdrawn it"),
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
    Observed,
    Unclaimed,
    Duplicate,
    Conflict,
    Failed,
    Refused,
    Rejected,
    Exhausted,
    Undecodable,
    Invalid,
    Keyless,
    KeyReused,
    InDoubt,
    Stale,
    SessionExpired,
    BeyondWindow,
    Late,
    Ahead,
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
        Self::Observed,
        Self::Unclaimed,
        Self::Duplicate,
        Self::Conflict,
        Self::Failed,
        Self::Refused,
        Self::Rejected,
        Self::Exhausted,
        Self::Undecodable,
        Self::Invalid,
        Self::Keyless,
        Self::KeyReused,
        Self::InDoubt,
        Self::Stale,
        Self::SessionExpired,
        Self::BeyondWindow,
        Self::Late,
        Self::Ahead,
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
            Self::Observed => "observed",
            Self::Unclaimed => "unclaimed",
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Rejected => "rejected",
            Self::Exhausted => "exhausted",
            Self::Undecodable => "undecodable",
            Self::Invalid => "invalid",
            Self::Keyless => "keyless",
            Self::KeyReused => "key-reused",
            Self::InDoubt => "in-doubt",
            Self::Stale => "stale",
            Self::SessionExpired => "session-expired",
            Self::BeyondWindow => "beyond-window",
            Self::Late => "late",
            Self::Ahead => "ahead",
            Self::StoreUnavailable => "store-unavailable",
            Self::RecordCorrupt => "record-corrupt",
            Self::LeaseLost => "lease-lost",
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
            Self::Observed { .. } => ExecutionKind::Observed,
            Self::Unclaimed { .. } => ExecutionKind::Unclaimed,
            Self::Duplicate { .. } => ExecutionKind::Duplicate,
            Self::Conflict { .. } => ExecutionKind::Conflict,
            Self::Failed { .. } => ExecutionKind::Failed,
            Self::Refused { .. } => ExecutionKind::Refused,
            Self::Rejected { .. } => ExecutionKind::Rejected,
            Self::Exhausted { .. } => ExecutionKind::Exhausted,
            Self::Undecodable { .. } => ExecutionKind::Undecodable,
            Self::Invalid { .. } => ExecutionKind::Invalid,
            Self::Keyless { .. } => ExecutionKind::Keyless,
            Self::KeyReused => ExecutionKind::KeyReused,
            Self::InDoubt { .. } => ExecutionKind::InDoubt,
            Self::Stale => ExecutionKind::Stale,
            Self::SessionExpired => ExecutionKind::SessionExpired,
            Self::BeyondWindow { .. } => ExecutionKind::BeyondWindow,
            Self::Late { .. } => ExecutionKind::Late,
            Self::Ahead { .. } => ExecutionKind::Ahead,
            Self::StoreUnavailable { .. } => ExecutionKind::StoreUnavailable,
            Self::RecordCorrupt { .. } => ExecutionKind::RecordCorrupt,
            Self::LeaseLost { .. } => ExecutionKind::LeaseLost,
            Self::Abandoned => ExecutionKind::Abandoned,
        }
    }

    /// Which attempt ran, if one did.
    pub const fn attempt(&self) -> Option<u32> {
        match self {
            // A rejection that was remembered, a number that was withdrawn, a doubt of earlier: nothing ran now.
            Self::Rejected { attempt: 0, .. } | Self::InDoubt { attempt: 0, .. } => None,
            Self::Executed { attempt, .. }
            | Self::Unprotected { attempt, .. }
            | Self::Observed { attempt, .. }
            | Self::Unclaimed { attempt, .. }
            | Self::Failed { attempt, .. }
            | Self::Refused { attempt, .. }
            | Self::Rejected { attempt, .. }
            | Self::Exhausted { attempt, .. }
            | Self::InDoubt { attempt, .. }
            | Self::LeaseLost { attempt } => Some(*attempt),
            _ => None,
        }
    }
}

impl<T, E> Execution<T, E> {
    /// A success of another kind, if this is one. What did not succeed is the same whoever knows of it.
    pub(super) fn if_executed(self, other: impl FnOnce(T, Outcome, u32) -> Self) -> Self {
        match self {
            Self::Executed {
                output,
                outcome,
                attempt,
            } => other(output, outcome, attempt),
            ended => ended,
        }
    }
}

impl<T, E: Failure> Execution<T, E> {
    /// What went wrong, in one line; `None` where nothing did.
    pub fn error(&self) -> Option<String> {
        match self {
            Self::Executed { .. }
            | Self::Unprotected { .. }
            | Self::Observed { .. }
            | Self::Unclaimed { .. }
            | Self::Duplicate { .. }
            | Self::Conflict { .. }
            | Self::Abandoned => None,
            Self::Refused { refusal, .. } => Some(refusal.to_string()),
            Self::Failed { cause, .. }
            | Self::Rejected { cause, .. }
            | Self::Exhausted { cause, .. } => Some(cause.to_string()),
            Self::Undecodable { error } | Self::Invalid { error } | Self::InDoubt { error, .. } => {
                Some(error.clone())
            }
            Self::Keyless { error } => Some(error.to_string()),
            Self::KeyReused => Some("the key was used before for other content".into()),
            Self::Stale => Some("its client no longer awaits the answer to this number".into()),
            Self::SessionExpired => Some("the session is unknown or has ended".into()),
            Self::BeyondWindow { window } => Some(format!(
                "the number is beyond the window of {window} from the lowest awaited one"
            )),
            Self::Late { why } => Some(why.to_string()),
            Self::Ahead { mark, window } => Some(format!(
                "the number is beyond the window of {window} from {mark}, which is not done"
            )),
            Self::StoreUnavailable { error } | Self::RecordCorrupt { error } => {
                Some(error.to_string())
            }
            Self::LeaseLost { .. } => Some("the lease was lost while the handler ran".into()),
        }
    }
}
