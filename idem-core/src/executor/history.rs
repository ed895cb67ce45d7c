//! What is known of a message's earlier attempts. [`Prepared`](super::Prepared) keeps it while the message waits for
//! its next attempt; the transport says whether a message was delivered before, the modes read that when they claim,
//! and note what became of each attempt.
//!
//! What must stay true: it never decides whether work is done (only the store knows), but how to claim, how to count
//! what no record counts, and when the loss of a transaction is the handler's own failure.

use crate::{
    executor::{Cause, Execution, ExecutionKind},
    handler::Failure,
};

/// The history of one message, as far as this process and its transport know.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Whether an attempt may have been made before.
    pub(super) attempted: bool,
    /// How often it has been attempted before, as far as the transport knows.
    pub(super) earlier: u32,
    /// How it would have ended last, if its policy were enforced and not to observe.
    pub(super) would_have_been: Option<ExecutionKind>,
    /// How often in succession the message has lost its transaction. Each loss repeats the same attempt, until there
    /// are too many.
    pub(super) losses: Losses,
}

/// How often in succession the transaction of a message was lost while the store answered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses(u32);

impl Losses {
    /// Up to so many losses are put down to an outage, which takes the transaction of one message once or twice. If
    /// it is lost once more, the handler itself loses it: it idles for longer than the server lets it, say. Without
    /// this limit such a message would be repeated for ever, because a loss is no attempt and uses none up.
    const MOST: u32 = 4;

    /// Whether the last run did not lose its transaction.
    pub(super) fn are_none(self) -> bool {
        self.0 == 0
    }

    /// Whether one more is the handler's own failure, and not to be repeated as the same attempt.
    pub(super) fn are_its_own(self) -> bool {
        self.0 >= Self::MOST
    }

    /// Whether a failure may only be that of the handler's connection, if that is found broken. It is the store's fault
    /// then, and no attempt. A rejection is not: the handler has decided.
    pub(super) fn may_be_one<E: Failure>(self, cause: &Cause<E>) -> bool {
        !cause.is_for_good() && !self.are_its_own()
    }

    /// Counts one more, or starts over: only losses in succession say something about the handler.
    pub(super) fn count<T, E>(&mut self, ended: &Execution<T, E>) {
        self.0 = match ended {
            Execution::StoreUnavailable { .. } => self.0 + 1,
            _ => 0,
        };
    }
}
