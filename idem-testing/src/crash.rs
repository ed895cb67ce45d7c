//! Where a worker can vanish while it handles a message.

use std::fmt;

/// Where a worker vanishes: from then on it does nothing, and its store hears nothing more of it.
///
/// | | before | after |
/// |---|---|---|
/// | the claim | [`BeforeClaim`](Self::BeforeClaim) | [`AfterClaim`](Self::AfterClaim) |
/// | an `.await` of the handler | | [`InHandler`](Self::InHandler) |
/// | the completion | [`BeforeCompletion`](Self::BeforeCompletion) | [`AfterCompletion`](Self::AfterCompletion) |
///
/// ```test_harness
/// # use idem_core::{Failed, idempotent};
/// # use idem_testing::{CrashPoint, Message, Setup};
/// # #[idempotent(key = message_id(), scope = "orders.note")]
/// # async fn note(_: serde_json::Value) -> Result<(), Failed> { Ok(()) }
/// #[tokio::test(start_paused = true)]
/// async fn a_note_that_was_completed_is_not_made_again() {
///     let harness = Setup::new(|| ()).handler::<note>();
///     let message = Message::json("hello").id("m-1");
///     harness.crash(CrashPoint::AfterCompletion, &message).await;
///     assert_eq!(harness.deliver(&message.redelivered()).await.attempt(), None);
/// }
/// ```
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
    /// The completion is written, and the message is not acknowledged, or the request not answered.
    AfterCompletion,
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeforeClaim => "before the claim",
            Self::AfterClaim => "after the claim, before the handler",
            Self::InHandler(wait) => return write!(f, "inside the handler, at wait {wait}"),
            Self::BeforeCompletion => "after the handler, before the completion",
            Self::AfterCompletion => "after the completion, before the ack or the answer",
        })
    }
}
