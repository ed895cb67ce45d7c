//! Where a worker can vanish while it handles a message.

use std::fmt;

/// Where a worker vanishes: from then on it does nothing, and its store hears nothing more of it.
///
/// | | before | after |
/// |---|---|---|
/// | the claim | [`BeforeClaim`](Self::BeforeClaim) | [`AfterClaim`](Self::AfterClaim) |
/// | an `.await` of the handler | | [`InHandler`](Self::InHandler) |
/// | the completion | [`BeforeCompletion`](Self::BeforeCompletion) | [`AfterCompletion`](Self::AfterCompletion) |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CrashPoint {
    /// The message has arrived, and nothing was done.
    BeforeClaim,
    /// The key is claimed, and the handler has not begun.
    AfterClaim,
    /// The handler waits at an `.await`, for the so many-th time, from 1; what it waits for may happen or
    /// not.
    InHandler(u32),
    /// The handler has returned, and the store has not heard of it.
    BeforeCompletion,
    /// The completion is written, and the message is not acknowledged.
    AfterCompletion,
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeforeClaim => "before the claim",
            Self::AfterClaim => "after the claim, before the handler",
            Self::InHandler(wait) => return write!(f, "inside the handler, at wait {wait}"),
            Self::BeforeCompletion => "after the handler, before the completion",
            Self::AfterCompletion => "after the completion, before the ack",
        })
    }
}
