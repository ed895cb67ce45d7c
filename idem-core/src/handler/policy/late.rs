//! What becomes of a message that comes when its copies may be forgotten.

/// What to do with a message whose [own time](crate::Envelope::sent_at) lies further back than its key is remembered,
/// and of whose key the store knows nothing: it may be new and have waited long, or a copy of one that was handled and
/// is forgotten.
///
/// The time is compared with the clock of this process: no store tells its own without being asked for it, and the
/// publisher's clock is a third one anyway. By as much as they differ, a message counts as late too soon or too late.
/// A message without a time is never late, nor is one whose time is in the future, a replay, or what has its
/// place in a session or a sequence.
///
/// ```
/// use idem_core::{Failed, idempotent};
/// # #[derive(serde::Deserialize)] struct Transfer { id: String }
///
/// #[idempotent(key = "id", scope = "bank.transfer", retention = "30d", late = "quarantine")]
/// async fn transfer(order: Transfer) -> Result<(), Failed> {
///     println!("{}", order.id); // a copy from last year is for a person to look at
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Late {
    /// Run it.
    Run,
    /// Dead-letter it with the reason `late`, for a person to look at. Sent again, it runs.
    Quarantine,
}
