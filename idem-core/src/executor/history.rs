//! What is known of a message's earlier attempts: it is kept beside the message while it waits for the next one.

use crate::executor::{Execution, ExecutionKind};

/// Of one message, as far as this process and its transport know.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Whether an attempt may have been made before.
    pub(super) attempted: bool,
    /// How often it has been attempted before, as far as the transport knows.
    pub(super) earlier: u32,
    /// How it would have ended last, if its policy were enforced and not to observe.
    pub(super) would_have_been: Option<ExecutionKind>,
    pub(super) losses: Losses,
}

/// How often in succession the transaction of a message was lost while the store answered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses(u32);

impl Losses {
    /// An outage takes the transaction of one message once or twice. What is lost each time is lost by what
    /// the handler does: it idles longer than the server lets it, say.
    const MOST: u32 = 4;

    pub(super) fn are_none(self) -> bool {
        self.0 == 0
    }

    /// Whether one more is the handler's own failure, and not to be repeated as the same attempt.
    pub(super) fn are_its_own(self) -> bool {
        self.0 >= Self::MOST
    }

    pub(super) fn count<T, E>(&mut self, ended: &Execution<T, E>) {
        self.0 = match ended {
            Execution::StoreUnavailable { .. } => self.0 + 1,
            _ => 0,
        };
    }
}
