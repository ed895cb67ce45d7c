//! What becomes of a message without a key.

/// What becomes of a message without a usable key.
///
/// ```
/// use idem_core::{Failed, idempotent};
/// # #[derive(serde::Deserialize)] struct Order { id: Option<String> }
///
/// #[idempotent(key = "id", scope = "orders.count", keyless = "run")]
/// async fn count(order: Order) -> Result<(), Failed> {
///     println!("{:?}", order.id); // old publishers send no id, and a copy of theirs is counted twice
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keyless {
    /// It is dead-lettered with the reason `keyless`, and never runs.
    DeadLetter,
    /// It runs **unprotected** (leased handlers only): nothing is claimed for it, and a copy of it runs again. Counted
    /// as [`Execution::Unclaimed`](crate::Execution::Unclaimed). Not in a session or a sequence, where the store has to
    /// know its place.
    Run,
}
