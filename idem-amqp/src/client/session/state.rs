//! Whether a session takes calls.

use std::sync::OnceLock;

use tokio_util::sync::CancellationToken;

/// Whether a session takes calls, and why not.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    ended: OnceLock<EndReason>,
    over: CancellationToken,
}

/// Why a session takes no more calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndReason {
    /// This client has closed it.
    Closed,
    /// The server has said that it has ended.
    Expired,
}

impl SessionState {
    /// It takes no more calls.
    pub(super) fn end(&self, why: EndReason) {
        // The first reason stays.
        let _ = self.ended.set(why);
        self.over.cancel();
    }

    pub(super) fn ended(&self) -> Option<EndReason> {
        self.ended.get().copied()
    }

    /// Cancelled when it has ended, or nobody has it any more.
    pub(super) fn over(&self) -> &CancellationToken {
        &self.over
    }
}
