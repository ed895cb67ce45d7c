//! What becomes of a copy of a message that is done, or is being handled.

/// What becomes of a copy of a message that is done.
///
/// ```
/// use idem_core::{Failed, idempotent};
/// # #[derive(serde::Deserialize)] struct Order { id: String }
///
/// #[idempotent(key = "id", scope = "orders.charge", on_duplicate = "dead-letter")]
/// async fn charge(order: Order) -> Result<(), Failed> {
///     println!("{}", order.id); // and whoever sends it twice is to be found
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDuplicate {
    /// It is acknowledged.
    Ack,
    /// It is dead-lettered with the reason `duplicate`, for a person to see who sends copies.
    ///
    /// What the transport delivers again, because its acknowledgement was lost, is acknowledged; so are copies of
    /// requests, which are answered, and dead letters that a person has sent again.
    DeadLetter,
}

/// What becomes of a copy of a message that is being handled, or that waits for its next attempt.
///
/// Some are neither dropped nor dead-lettered, whatever is said here, but wait (with [`Requeue`](Self::Requeue) outside
/// the worker): what the transport delivers again, and may be the very message whose key is held; one whose claim the
/// store did not answer; requests, whose clients wait for an answer; dead letters that a person has sent again.
///
/// ```
/// use idem_core::{Failed, idempotent};
/// # #[derive(serde::Deserialize)] struct Refresh { view: String }
///
/// #[idempotent(key = "view", scope = "views.refresh", retention = "30s", on_conflict = "ack")]
/// async fn refresh(order: Refresh) -> Result<(), Failed> {
///     println!("{}", order.view); // while it is being refreshed, nobody need ask for it again
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnConflict {
    /// It waits for the end of the other, and is then a duplicate, or the next attempt.
    Wait,
    /// It leaves the worker at once: to the retry ladder, or back to its queue after a second or more. Right where
    /// nothing is to wait in the worker.
    Requeue,
    /// It is dead-lettered with the reason `conflict`.
    DeadLetter,
    /// It is acknowledged, **and its content is lost**: logged at `WARN`, and counted as dropped. The other one stays,
    /// and is attempted until it is done or given up. If the handler has read before what the copy tells of, nobody
    /// tells it again. While a key is held its content is not compared: a message with other content is taken for a
    /// copy, too.
    Ack,
}
