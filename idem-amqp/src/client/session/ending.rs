//! Whether a session takes calls.

use std::sync::OnceLock;

use tokio_util::sync::CancellationToken;

/// Whether a session takes calls, and why not.
#[derive(Debug, Default)]
pub(super) struct Ending {
    end: OnceLock<End>,
    over: CancellationToken,
}

/// Why a session takes no more calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// This client has closed it.
    Closed,
    /// The server has said that it has ended.
    Expired,
}

impl Ending {
    /// It takes no more calls.
    pub(super) fn end(&self, end: End) {
        // The first reason stays.
        let _ = self.end.set(end);
        self.over.cancel();
    }

    pub(super) fn ended(&self) -> Option<End> {
        self.end.get().copied()
    }

    /// Cancelled when it has ended, or nobody has it any more.
    pub(super) fn over(&self) -> &CancellationToken {
        &self.over
    }
}
